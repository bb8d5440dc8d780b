"""How a handler is built and called: with which arguments, and whether with a list or arrays."""

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_origin

from adaptive_batching.workers.handler import ConfiguredHandler, call_of, name_of

if TYPE_CHECKING:
    from adaptive_batching.payloads.array_stacking import Stacking

_ARRAYS = re.compile(r"\b(ndarray|NDArray|Tensor)\b")


def configured(
    handler: Any, init_args: Mapping[str, Any] | None = None, *, takes_one: bool = False
) -> Any:
    """Return a handler with what its workers have to know besides; as it is if that is nothing.

    Args:
        handler: A function or a class.
        init_args: Keyword arguments with which each worker builds the class.
        takes_one: Whether it is called with one item instead of a list.

    Raises:
        TypeError: A function has no constructor, the class's takes other arguments, or an
            annotation asks for arrays and does not say of what.
    """
    _check_init_args(handler, init_args or {})
    adapt = None
    if not takes_one and _may_take_arrays(handler):
        try:
            adapt = _stacking(handler)
        except TypeError as error:
            raise TypeError(f"handler {name_of(handler)}: {error}") from None
    if adapt is None and not init_args:
        return handler
    return ConfiguredHandler(handler, dict(init_args or {}), adapt)


def takes_lengths(handler: Any) -> bool:
    """Whether a configured handler is called with the lengths of padded arrays, too."""
    return bool(getattr(getattr(handler, "adapt", None), "hands_lengths", False))


def _check_init_args(handler: Any, init_args: Mapping[str, Any]) -> None:
    if not isinstance(init_args, Mapping):
        msg = f'init_args: expected a dict such as {{"path": "model.pt"}}, got {init_args!r}'
        raise TypeError(msg)
    if not init_args:
        return
    if not inspect.isclass(handler):
        msg = "init_args: expected a class as handler, which each worker builds with them"
        raise TypeError(f"{msg}, got {handler!r}")
    try:
        signature = inspect.signature(handler)
        signature.bind(**init_args)
    except ValueError:
        return  # written in C
    except TypeError as error:
        msg = f"init_args: expected the arguments of {handler.__qualname__}{signature}"
        raise TypeError(f"{msg}, got {dict(init_args)}: {error}") from None


def _may_take_arrays(handler: Any) -> bool:
    """Whether annotations are worth a second look: most say at a glance that they want lists."""
    if "numpy" not in sys.modules:  # nor is torch there, then
        return False
    try:
        annotations = getattr(call_of(handler), "__annotations__", {})
    except NameError:  # as soon as they are looked at, from Python 3.14 on
        return False
    taken = [hint for name, hint in annotations.items() if name != "return"]
    is_list = not taken or taken[0] is list or get_origin(taken[0]) is list
    return not (is_list or str(taken[0]).startswith("list["))


def _stacking(handler: Any) -> "Stacking | None":
    """What stacks the items of a handler; None if it takes a list."""
    # they import msgspec, for which handlers of lists need not wait
    from adaptive_batching.payloads import annotations  # noqa: PLC0415
    from adaptive_batching.payloads.array_stacking import Stacking  # noqa: PLC0415

    call = call_of(handler)
    try:
        hint, _ = annotations.signature_types(call)
    except TypeError:
        if _ARRAYS.search(str(call.__annotations__)):
            raise
        return None  # whatever its names mean, they are no arrays
    stacking = Stacking.of(hint)
    if stacking is None or "lengths" not in list(inspect.signature(call).parameters)[1:]:
        return stacking
    if all(column.padded is None for column in stacking.columns.values()):
        msg = "lengths: expected a padded array before it, as in Annotated[np.ndarray,"
        raise TypeError(f"{msg} Shape(None, 80), DType('float32'), Padded(axis=0)], got {hint}")
    return replace(stacking, hands_lengths=True)
