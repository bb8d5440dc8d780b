"""A value that a JSON schema describes, for a form that has no example of the author."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_DEEPEST = 6  # from where lists are as short as they may be, and null is taken where it may be
_TEXTS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "duration": "P1D",
    "time": "12:00:00",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def make_example(schema: Schema, types: Mapping[str, Schema], depth: int = 0) -> Any:
    """Make a small value: required fields alone, zeros, and lists with one element.

    Patterns of texts are not followed. A schema that allows anything gets null.

    Args:
        schema: What is described.
        types: The schemas that it refers to as `#/components/schemas/…`, by name.
        depth: Of the value within the example.
    """
    schema = _resolved(schema, types, depth)
    given = [schema[key] for key in ("const", "default") if key in schema]
    given += schema.get("enum", [])[:1]
    if given:
        return given[0]
    match schema.get("type"):
        case "object":
            return _object(schema, types, depth)
        case "array":
            return _array(schema, types, depth)
        case "string":
            return _text(schema)
        case "integer" | "number":
            return _number(schema)
        case kind:
            return True if kind == "boolean" else None


def _resolved(schema: Schema, types: Mapping[str, Schema], depth: int) -> Schema:
    """What a reference leads to, and the first of several schemas that may hold."""
    if "$ref" in schema:
        return _resolved(types[schema["$ref"].rpartition("/")[2]], types, depth)
    for several in {"anyOf", "oneOf", "allOf"} & schema.keys():
        kinds = sorted(schema[several], key=lambda each: each.get("type") == "null")
        return _resolved(kinds[-1 if depth > _DEEPEST else 0], types, depth)
    return schema


def _object(schema: Schema, types: Mapping[str, Schema], depth: int) -> dict[str, Any]:
    fields = schema.get("properties", {})
    wanted = [name for name in fields if name in schema.get("required", ())]
    return {name: make_example(fields[name], types, depth + 1) for name in wanted}


def _text(schema: Schema) -> str:
    text = _TEXTS.get(schema.get("format", ""), "text")
    return text[: schema.get("maxLength")].ljust(schema.get("minLength", 0), "x")


def _array(schema: Schema, types: Mapping[str, Schema], depth: int) -> list[Any]:
    first = [make_example(each, types, depth + 1) for each in schema.get("prefixItems", ())]
    least = schema.get("minItems", 0)
    wanted = max(least, min(1, schema.get("maxItems", 1)) if depth <= _DEEPEST else 0)
    items = schema.get("items") or {}
    return first + [make_example(items, types, depth + 1) for _ in range(wanted - len(first))]


def _number(schema: Schema) -> float:
    """Zero, or what is nearest to it; whole where the limits are."""
    least = max(schema.get("minimum", 0), schema.get("exclusiveMinimum", -1) + 1)
    most = min(schema.get("maximum", least), schema.get("exclusiveMaximum", least + 1) - 1)
    nearest: float = min(least, most)
    return nearest
