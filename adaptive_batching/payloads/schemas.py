"""Declared types as JSON schemas."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from adaptive_batching.payloads import pydantic_types
from adaptive_batching.payloads.annotations import UNDECLARED
from adaptive_batching.payloads.arrays.marks import DType, Shape
from adaptive_batching.payloads.kinds import array_type, is_pydantic

Schema = dict[str, Any]

_WHERE = "#/components/schemas/"


def check_schema(kind: Any) -> None:
    """See to it that a type can be described, and so that values of it can be validated.

    Raises:
        TypeError: It can't.
    """
    if array_type(kind) is not None or is_pydantic(kind):
        return
    try:
        msgspec.json.schema(kind, schema_hook=_array_field)
    except TypeError as error:
        reason = str(error).splitlines()[-1]
        msg = f"expected a type that can be validated, or Any, got {kind}: {reason}"
        raise TypeError(msg) from error
    _check_marks(kind, set())


def _check_marks(kind: Any, seen: set[Any]) -> None:
    """Within other types msgspec passes marks over, and would let any array pass."""
    marks = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    if any(isinstance(mark, Shape | DType) for mark in marks):
        msg = (
            "expected Shape and DType on an array that is the whole of it, got them"
            " within another type: say np.ndarray[tuple[Literal[28], int], np.dtype[np.float32]]"
        )
        raise TypeError(msg)
    inner = list(get_args(kind)[:1] if marks else get_args(kind))
    if _has_fields(kind) and kind not in seen:
        seen.add(kind)
        inner += get_type_hints(kind, include_extras=True).values()
    for each in inner:
        _check_marks(each, seen)


def _has_fields(kind: Any) -> bool:
    struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return struct or is_dataclass(kind) or is_typeddict(kind) or hasattr(kind, "_fields")


def make_schemas(kinds: Sequence[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """Describe types.

    Returns:
        The schemas, and by name those that they refer to as `#/components/schemas/…`.

    Raises:
        TypeError: Two types have one name.
    """
    own = [kind for kind in kinds if not is_pydantic(kind)]
    described, components = msgspec.json.schema_components(
        [_for_msgspec(kind) for kind in own],
        schema_hook=_array_field,
        ref_template=_WHERE + "{name}",
    )
    remaining = iter(described)
    schemas = []
    for kind in kinds:
        if is_pydantic(kind):
            schema = pydantic_types.schema(kind, _WHERE + "{model}")
            _add(components, schema.pop("$defs", {}).items())
            if isinstance(kind, type) and "$ref" not in schema:
                name = re.sub(r"\W", "_", kind.__name__)  # as that of `Page[int]`
                _add(components, [(name, schema)])
                schema = {"$ref": _WHERE + name}
        else:
            schema = _titled(next(remaining), kind)
        schemas.append(schema)
    return schemas, components


def _for_msgspec(kind: Any) -> Any:
    array = array_type(kind)
    return kind if array is None else array.nested


def _titled(schema: Schema, kind: Any) -> Schema:
    array = array_type(kind)
    if kind is UNDECLARED or array is None:
        return schema
    return {"title": str(array), **schema}


def _add(components: dict[str, Schema], named: Iterable[tuple[str, Schema]]) -> None:
    for name, schema in named:
        if components.setdefault(name, schema) != schema:
            raise TypeError(f"expected types with names of their own, got two called {name}")


def _array_field(kind: Any) -> Schema:
    """Describe an array that is part of something larger; a `schema_hook` of msgspec."""
    if array_type(kind) is None:
        raise NotImplementedError  # so msgspec is told, and raises a TypeError that names the type
    return {"type": "array"}
