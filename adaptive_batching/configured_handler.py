"""How a handler is built and called: with which arguments, and whether with a list or arrays."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adaptive_batching.payloads.annotations import UnknownName, declared_types, signature_types
from adaptive_batching.payloads.kinds import stacking_of
from adaptive_batching.workers.handler.handler import ConfiguredHandler, call_of, name_of, yields
from adaptive_batching.workers.handler.padding import Padding

if TYPE_CHECKING:
    from adaptive_batching.core import Costs
    from adaptive_batching.payloads.arrays.stacking import Stacking

_ARRAYS = re.compile(r"\b(ndarray|NDArray|Tensor)\b")


def configured(
    handler: Any,
    init_args: Mapping[str, Any] | None = None,
    *,
    takes_one: bool = False,
    padding: Padding | None = None,
    costs: "Costs | None" = None,
) -> Any:
    """Return a handler with what its workers have to know besides; as it is if that is nothing.

    Args:
        handler: A function or a class.
        init_args: Keyword arguments with which each worker builds the class.
        takes_one: Whether it is called with one item instead of a list.
        padding: Fills its batches up to the sizes that it takes; None if it takes any.
        costs: How the costs of items add up; its `pad_costs` are lengths of padded arrays.

    Raises:
        TypeError: The handler can't be called, or yields its results. Or a function has no
            constructor, the class's takes other arguments, or an annotation says that the handler
            takes or returns something else than lists or arrays.
        ValueError: An array is padded to `pad_costs` that are no lengths.
    """
    _check_returns(handler)
    _check_init_args(handler, init_args or {})
    adapt = None if takes_one else _adapter(handler, padding, costs)
    if adapt is None and not init_args:
        return handler
    return ConfiguredHandler(handler, dict(init_args or {}), adapt)


def takes_lengths(handler: Any) -> bool:
    """Whether a configured handler is called with the lengths of padded arrays, too."""
    return bool(getattr(getattr(handler, "adapt", None), "hands_lengths", False))


def check_takes_a_list(handler: Any) -> None:
    """See to it that a configured handler, or an instance of it, is called with one list.

    Raises:
        TypeError: It would need more, or takes nothing.
    """
    more: dict[str, object] = {"lengths": []} if takes_lengths(handler) else {}
    if isinstance(handler, ConfiguredHandler):
        handler = handler.handler
    arguments: tuple[object, ...] = ([],)
    if inspect.isclass(handler):
        arguments = (handler, [])  # in the place of the instance that does not exist yet
        if not inspect.isfunction(inspect.getattr_static(handler, "__call__")):
            return  # something with a binding of its own
    call = call_of(handler)
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return  # written in C: takes what it is given
    try:
        signature.bind(*arguments, **more)
    except TypeError:
        msg = "handler: expected a handler of (items), or of (self, items) in a class, got"
        cure = "what differs from call to call belongs into the item"
        raise TypeError(f"{msg} {name_of(call)}{signature}: {cure}") from None


def _check_returns(handler: Any) -> None:
    """See whether a handler, or an instance of it if it is a class, can be called and returns.

    Raises:
        TypeError: It can't be called, or yields its results.
    """
    if not callable(handler):
        msg = f"expected a function, a method or a class as handler, got {handler!r}"
        raise TypeError(msg)
    call = call_of(handler)
    if call is None:
        expected = f"{name_of(handler)} to define __call__(self, items)"
        raise TypeError(f"handler: expected {expected}, got a class without")
    if yields(call):
        expected = "one that returns a list"
        raise TypeError(f"handler: expected {expected}, got {name_of(call)}, which yields")


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


def _adapter(
    handler: Any, padding: Padding | None, costs: "Costs | None"
) -> Callable[[Any], Any] | None:
    """What makes the handler one that takes a list of any size; None if it is one."""
    stacking = _stacking(handler)
    if stacking is None:
        return padding
    if costs is not None:
        stacking = stacking.padded_as(costs)
    return replace(stacking, padding=padding)


def _stacking(handler: Any) -> "Stacking | None":
    """What stacks the items of a handler; None if it takes a list."""
    call = call_of(handler)
    try:
        declared_types(call)  # whether it can take and return lists, also between other steps
        hint, _ = signature_types(call)
        stacking = stacking_of(hint)
    except UnknownName:
        if _speaks_of_arrays(call):
            raise
        return None  # whatever its names will mean, they are no arrays
    if stacking is None or "lengths" not in list(inspect.signature(call).parameters)[1:]:
        return stacking
    if all(column.padded is None for column in stacking.columns.values()):
        msg = f"handler {name_of(handler)}: lengths: expected a padded array before it, as in"
        msg = f"{msg} Annotated[np.ndarray,"
        raise TypeError(f"{msg} Shape(None, 80), DType('float32'), Padded(axis=0)], got {hint}")
    return replace(stacking, hands_lengths=True)


def _speaks_of_arrays(call: Any) -> bool:
    try:
        return bool(_ARRAYS.search(str(getattr(call, "__annotations__", ""))))
    except NameError:  # as soon as they are looked at, from Python 3.14 on
        return False
