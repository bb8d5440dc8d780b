"""Which types a handler declares for its items and its results, read from its annotations."""

import inspect
from collections import abc
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from adaptive_batching.payloads.kinds import stacked_row, stacking_of
from adaptive_batching.workers.handler import call_of, name_of

UNDECLARED: Any = Any

_LISTS = {list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable}
_SINGLE = (bool, int, float, complex, str, bytes, bytearray, NoneType, None)
_UNORDERED = (abc.Mapping, abc.Set)
_AWAITED = {abc.Awaitable, abc.Coroutine}


class UnknownName(TypeError):
    """A name in an annotation means nothing where its function is defined."""


def declared_types(handler: Callable[..., Any], *, takes_one: bool = False) -> tuple[Any, Any]:
    """The type of an item and that of a result, each `UNDECLARED` if the handler doesn't say.

    Where a class has `preprocess`, that takes the item; where it has `postprocess`, that returns
    the result. Exceptions among the results are not part of their type.

    Args:
        handler: A function or a class.
        takes_one: Whether it is called with one item instead of a list.

    Raises:
        UnknownName: A name in an annotation means nothing where the handler is defined.
        TypeError: An annotation says that the handler takes or returns something else than a list,
            or asks for arrays and does not say of what.
    """
    call = call_of(handler)
    before = getattr(handler, "preprocess", None)
    after = getattr(handler, "postprocess", None)
    taken, _ = signature_types(before or call)
    _, returned = signature_types(after or call)
    name = name_of(call)
    item, result = taken, returned
    if not (before or takes_one):
        expected = f"{name} to take a list of items, such as list[{_shown(taken)}]"
        try:
            stacking = stacking_of(taken)
        except TypeError as error:
            raise TypeError(f"handler {name}: {error}") from None
        item = stacking.item if stacking else _element(taken, expected)
    if not (after or takes_one):
        expected = f"{name} to return a list with one result for each item"
        result = stacked_row(returned) or _element(returned, expected)
    return _value(item), _value(_without_exceptions(result))


def signature_types(function: Callable[..., Any]) -> tuple[Any, Any]:
    """What a function takes first, beside `self`, and what it returns, once that is awaited.

    Raises:
        UnknownName: A name in an annotation means nothing where the function is defined.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        name = name_of(function)
        msg = (
            f"handler: expected annotations that mean something when {name} is registered, got"
            f" {error}: import it, define it before, or declare item= and result="
        )
        raise UnknownName(msg) from error
    except (TypeError, ValueError):
        return UNDECLARED, UNDECLARED  # written in C
    parameters = [each for each in parameters if each.name != "self"]
    first = parameters[0] if parameters else None
    named = first is not None and first.kind is not first.VAR_POSITIONAL
    taken = hints.get(first.name, UNDECLARED) if first is not None and named else UNDECLARED
    returned = hints.get("return", UNDECLARED)
    if get_origin(returned) in _AWAITED:
        returned = get_args(returned)[-1]
    return taken, returned


def _check_list(hint: Any, expected: str) -> None:
    """Refuse an annotation of what can't stand for a list."""
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    kind = get_origin(kind) or kind
    is_unordered = isinstance(kind, type) and issubclass(kind, _UNORDERED)
    if is_unordered or kind in _SINGLE:
        raise TypeError(f"handler: expected {expected}, got the annotation {_shown(hint)}")


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def _element(hint: Any, expected: str) -> Any:
    """Of a list, or of what can stand for one."""
    _check_list(hint, expected)
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    arguments = get_args(hint)
    if get_origin(hint) in _LISTS:
        return arguments[0]
    if get_origin(hint) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return arguments[0]
    return UNDECLARED


def _without_exceptions(hint: Any) -> Any:
    """An exception may stand in the place of any result, and many handlers say so."""
    members = get_args(hint) if get_origin(hint) in {Union, UnionType} else [hint]
    kept = [each for each in members if not _is_exception(each)]
    if len(kept) == 1:
        return kept[0]
    return Union[tuple(kept)] if kept else UNDECLARED  # noqa: UP007  of as many as there are


def _is_exception(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseException)


def _value(hint: Any) -> Any:
    if hint is object or isinstance(hint, TypeVar):
        return UNDECLARED
    return NoneType if hint is None else hint
