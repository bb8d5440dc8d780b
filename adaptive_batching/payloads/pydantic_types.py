"""Types that pydantic has to validate: its models, and whatever holds one.

pydantic is imported if the user's type is one of its own, and then it is there.
"""

from collections.abc import Callable
from typing import Any

from adaptive_batching.errors import InvalidItem
from adaptive_batching.payloads.faults import of_location


def validator(kind: Any, *, json: bool) -> Callable[[Any], Any]:
    """What makes a value of JSON's text, or else of plain Python values.

    It raises `InvalidItem`, and whatever else a validator of the user's raises.
    """
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415  only where it is used

    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    validate = adapter.validate_json if json else adapter.validate_python

    def validated(value: Any) -> Any:
        try:
            return validate(value)
        except ValidationError as error:
            (first, *_) = error.errors(
                include_url=False, include_context=False, include_input=False
            )
            fault: InvalidItem = of_location(first["loc"], first["msg"])
        raise fault

    return validated


def plain_values(kind: Any) -> Callable[[Any], Any]:
    """What makes plain Python values of a value; what it does not know it leaves as it is."""
    from pydantic import TypeAdapter  # noqa: PLC0415  only where it is used

    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def plain(value: Any) -> Any:
        return adapter.dump_python(value, mode="json", by_alias=True, warnings=False)

    return plain


def values(item: Any) -> Any:
    """The fields of a model, with bytes as they are."""
    return item.model_dump(by_alias=True)


def aliases(kind: Any) -> dict[str, str]:
    """What fields of a model are called in bodies, by their names in Python; of others none."""
    named = [
        (name, each.validation_alias) for name, each in getattr(kind, "model_fields", {}).items()
    ]
    return {name: alias for name, alias in named if isinstance(alias, str)}


def schema(kind: Any, template: str) -> dict[str, Any]:
    """A type's JSON schema, with `$defs` beside it; `template` says where those are referred to.

    The schema is that of what is validated, for results as well: they are.
    """
    from pydantic import TypeAdapter  # noqa: PLC0415  only where it is used

    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    return adapter.json_schema(ref_template=template)
