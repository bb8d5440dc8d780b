"""Which types a handler declares for its items and its results, read from its annotations."""

import inspect
from collections import abc
from collections.abc import Callable, Sequence
from enum import Enum
from numbers import Number
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from adaptive_batching.payloads.arrays.marks import Padded, split_annotation
from adaptive_batching.payloads.kinds import stacked_row, stacking_of
from adaptive_batching.workers.handler.handler import call_of, name_of

UNDECLARED: Any = Any

_LISTS = {list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable}
_UNIONS = {Union, UnionType}
_SINGLE = (tuple, Number, str, bytes, bytearray, NoneType, Enum)
# By name, for an annotation names none of a module that its author did not import.
_SINGLE_NAMES = {"datetime.date", "datetime.time", "datetime.timedelta", "uuid.UUID"}
_UNORDERED = (abc.Mapping, abc.Set)
_FIELDS = (
    "__struct_fields__",
    "__dataclass_fields__",
    "__pydantic_validator__",
    "__attrs_attrs__",
    "_fields",
)
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
    batch, results = signature_types(call)
    name = name_of(call)
    stacking = None
    if not takes_one:
        try:
            stacking = stacking_of(batch)
        except TypeError as error:
            raise TypeError(f"handler {name}: {error}") from None
    if before:
        item, _ = signature_types(before)
    elif takes_one:
        item = batch
    else:
        expected = f"{name} to take a list of items"
        item = stacking.item if stacking else _element(batch, expected)
    if after:
        _, result = signature_types(after)
    elif takes_one:
        result = results
    else:
        expected = f"{name} to return a list with one result for each item"
        _check_unpadded(results)
        several = stacking is not None and _is_mapping(results)  # arrays by name, a row for each
        result = stacked_row(results) or (UNDECLARED if several else _element(results, expected))
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


def _members(hint: Any) -> Sequence[Any]:
    """The types of a union; of any other annotation, that alone."""
    bare, _ = split_annotation(hint)
    return get_args(bare) if get_origin(bare) in _UNIONS else (bare,)


def _check_list(hint: Any, expected: str) -> None:
    """Refuse an annotation of what can't stand for a list, and name one that can.

    A class that is unknown here may be one, such as a data frame.
    """
    members = _members(hint)
    lists = [each for each in members if not _is_one_value(each)]
    if len(lists) < len(members):
        such = " | ".join(map(_shown, lists)) or f"list[{_shown(hint)}]"
        msg = f"handler: expected {expected}, such as {such}"
        raise TypeError(f"{msg}, got the annotation {_shown(hint)}")


def _is_one_value(hint: Any) -> bool:
    """Whether an annotation is certainly of one item or one result."""
    bare, _ = split_annotation(hint)
    kind = get_origin(bare) or bare
    if kind is None or kind is Literal:
        return True
    if not isinstance(kind, type):
        return False
    if any(hasattr(kind, each) for each in _FIELDS) and not hasattr(kind, "__len__"):
        return True
    names = {f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__}
    return issubclass(kind, _SINGLE + _UNORDERED) or not names.isdisjoint(_SINGLE_NAMES)


def _is_mapping(hint: Any) -> bool:
    bare, _ = split_annotation(hint)
    kind = get_origin(bare) or bare
    return isinstance(kind, type) and issubclass(kind, abc.Mapping)


def _check_unpadded(hint: Any) -> None:
    """Refuse padding where nothing is stacked."""
    if _is_padded(hint):
        msg = "handler: expected Padded beside the array that a handler takes for its whole batch"
        form = "Annotated[NDArray[np.float32], Shape(None), Padded()]"
        raise TypeError(f"{msg}, as in {form}, got it in {_shown(hint)}")


def _is_padded(hint: Any) -> bool:
    bare, marks = split_annotation(hint)
    return any(isinstance(each, Padded) for each in marks) or any(map(_is_padded, get_args(bare)))


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def _element(hint: Any, expected: str) -> Any:
    """The type of an element of a list, or of what can stand for one."""
    _check_list(hint, expected)
    _check_unpadded(hint)
    bare, _ = split_annotation(hint)
    arguments = get_args(bare)
    if get_origin(bare) in _UNIONS:
        elements = tuple(_element(each, expected) for each in arguments)
        return UNDECLARED if UNDECLARED in elements else Union[elements]  # noqa: UP007  likewise
    return arguments[0] if get_origin(bare) in _LISTS else UNDECLARED


def _without_exceptions(hint: Any) -> Any:
    """An exception may stand in the place of any result, and many handlers say so."""
    members = get_args(hint) if get_origin(hint) in _UNIONS else [hint]
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
