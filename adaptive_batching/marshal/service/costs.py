"""What the bodies of an endpoint cost, where they don't cost the same."""

from collections.abc import Callable
from typing import Any

from adaptive_batching.core import Costs
from adaptive_batching.item_costs import CostOf, checked_cost
from adaptive_batching.payloads.annotations import UNDECLARED, UnknownName, signature_types
from adaptive_batching.payloads.contract import Contract


def function_of(cost: str | CostOf | None) -> CostOf | None:
    """Return the function that an endpoint's `cost` stands for: `"bytes"` is a body's length."""
    return len if isinstance(cost, str) else cost


def reads_items(function: object) -> bool:
    """Whether an endpoint's `key` or `cost` is a function of the item: bodies are read for it."""
    return callable(function) and not _takes_bytes(function)


def cost_of_bodies(cost: str | CostOf, contract: Contract, costs: Costs | None) -> CostOf:
    """Make what says the cost of an item as it goes to the handler: a body, or one with its codecs.

    Bodies are read for it unless their bytes are enough: `"bytes"`, or a function that takes bytes
    by its annotation, of an endpoint whose items are something else.
    """
    weigh = checked_cost(len if isinstance(cost, str) else cost, costs)
    if isinstance(cost, str) or (_takes_bytes(cost) and contract.item.kind is not bytes):
        return (lambda tagged: weigh(tagged[2])) if contract.has_choice else weigh
    readers = contract.item.readers()
    if contract.has_choice:
        return lambda tagged: weigh(readers[tagged[0]](tagged[2]))
    read = readers[0]
    return lambda body: weigh(read(body))


def _takes_bytes(function: Callable[..., Any]) -> bool:
    try:
        taken, _ = signature_types(function)
    except UnknownName:
        taken = UNDECLARED
    return taken is bytes
