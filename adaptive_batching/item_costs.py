"""What items cost, by a function of one item that the program gives."""

import inspect
from collections.abc import Callable
from math import inf
from typing import Any

from adaptive_batching.core import Costs
from adaptive_batching.errors import CostError
from adaptive_batching.exception_text import qualname_of
from adaptive_batching.units import LARGEST_COST, check_flags, is_number, plain_number
from adaptive_batching.workers.handler.handler import is_async, name_of
from adaptive_batching.workers.handler.results import ask, sequence_of

CostOf = Callable[[Any], float]
"""What an item costs: a number from 0 to `LARGEST_COST`, in any unit.

Every real number is one, of Python or NumPy, and the one in an array or tensor without dimensions;
True and False are none, nor are texts and arrays with dimensions.
"""


def make_costs(
    cost: object, *, padded: bool, max_batch_cost: float | None, pad_costs: object = None
) -> Costs | None:
    """How the costs of items add up; None if no function says what one costs.

    Raises:
        TypeError: The function is none that can be called with one item, or has to be awaited;
            `padded` is neither True nor False; or `pad_costs` is no list.
        ValueError: The other arguments are given without it, no batch may cost anything, or
            `pad_costs` is empty.
    """
    check_flags(padded=padded)
    listed = () if pad_costs is None else sequence_of(pad_costs)
    expected = "expected a list of numbers, such as [128, 256, 512]"
    if listed is None:
        raise TypeError(f"pad_costs: {expected}, got {pad_costs!r}")
    if pad_costs is not None and not listed:
        raise ValueError(f"pad_costs: {expected}, or None, got {pad_costs!r}")
    if cost is None:
        beside = {
            "padded": padded or None,
            "max_batch_cost": max_batch_cost,
            "pad_costs": listed or None,
        }
        for name, given in beside.items():
            if given is not None:
                expected = "expected cost=..., which says what an item costs, such as cost=len"
                raise ValueError(f"{name}: {expected}, beside it, got {name}={given!r} alone")
        return None
    if not callable(cost) or is_async(cost):
        expected = "expected a function that is not async, which returns a number for one item"
        raise TypeError(f"cost: {expected}, such as len, got {cost!r}")
    _expect_one_argument(cost)
    most = inf if max_batch_cost is None else plain_number(max_batch_cost)
    return Costs(padded, most, tuple(map(plain_number, listed)))


def _expect_one_argument(cost: Callable[..., object]) -> None:
    try:
        signature = inspect.signature(cost, follow_wrapped=False)  # of what is called
    except (TypeError, ValueError):
        return  # written in C: takes what it is given
    try:
        signature.bind(None)
    except TypeError as error:
        expected = "expected a function of one item, such as len"
        raise TypeError(f"cost: {expected}, got {name_of(cost)}{signature}: {error}") from None


def checked_cost(function: CostOf, costs: Costs | None = None) -> CostOf:
    """Return the function with a `CostError` in the place of what it does wrong.

    Where `costs` say to which costs the model pads its items, it returns the next of them.
    """
    name = name_of(function)
    rounded = costs.rounded if costs is not None and costs.pad_costs else float

    asked = f"cost: expected a number for each item from {name}"

    def cost_of(item: Any) -> float:
        cost = ask(function, item, CostError, asked)
        try:
            number = plain_number(cost)
            if is_number(number) and 0 <= number <= LARGEST_COST:
                return float(rounded(number))
        except Exception:  # noqa: BLE001, S110  a number may have code of its own: it is none then
            pass
        expected = f"expected a number from 0 to {LARGEST_COST:g}"
        raise CostError(f"cost: {expected} from {name}, got {_shown(cost)}")

    return cost_of


def _shown(cost: object) -> str:
    try:
        return f"{cost!r:.100}"
    except Exception:  # noqa: BLE001  an int of too many digits, or an object's own code
        return f"an object of {qualname_of(type(cost))}"
