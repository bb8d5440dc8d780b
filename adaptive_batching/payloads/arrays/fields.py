"""Several arrays by name as a type: the items of a handler that takes a dict of stacked arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypedDict

from adaptive_batching.errors import InvalidItem
from adaptive_batching.exception_text import qualname_of
from adaptive_batching.payloads.arrays.array_type import ArrayType
from adaptive_batching.payloads.faults import in_field


@dataclass(frozen=True)
class ArrayFields:
    """A type of dicts of arrays; it is used as an `ArrayType` is.

    Attributes:
        fields: The type of each array; empty if any names will do.
        every: The type of all arrays, where any names will do.
        title: What it is called in documents.
    """

    is_one_array: ClassVar[bool] = False

    fields: Mapping[str, ArrayType]
    every: ArrayType | None
    title: str

    def __str__(self) -> str:
        return self.title

    @property
    def nested(self) -> Any:
        """The type with nested lists, as msgspec knows it."""
        if self.every is not None:
            return dict[str, self.every.nested]  # type: ignore[name-defined]
        return _typed_dict(self.title, {name: each.nested for name, each in self.fields.items()})

    @property
    def read_as(self) -> Any:
        """The fields as they are read; see `ArrayType.read_as`."""
        if self.every is not None:
            return dict[str, self.every.read_as]  # type: ignore[name-defined]
        return _typed_dict(self.title, {name: each.read_as for name, each in self.fields.items()})

    def from_lists(self, lists: Mapping[str, Any]) -> dict[str, Any]:
        """Make arrays of lists that are as `read_as` says.

        Raises:
            InvalidItem: One is not of its type, or there is none.
        """
        return self._each("from_lists", lists)

    def from_item(self, item: Any) -> dict[str, Any]:
        """Take arrays as they are; make arrays of numbers and lists.

        Raises:
            InvalidItem: They have other names, or one is not of its type.
        """
        return self._checked("from_item", item)

    def from_result(self, result: Any) -> dict[str, Any]:
        """As of an item, with floats in the declared precision.

        Raises:
            InvalidItem: They have other names, or one is not of its type.
        """
        return self._checked("from_result", result)

    def _checked(self, method: str, result: Any) -> dict[str, Any]:
        if not isinstance(result, Mapping):
            fault = f"expected a dict of arrays, got {qualname_of(type(result))}"
            raise InvalidItem("$", fault)
        if self.fields and result.keys() != self.fields.keys():
            raise InvalidItem("$", f"expected {_listed(self.fields)}, got {_listed(result)}")
        return self._each(method, result)

    def _each(self, method: str, values: Mapping[str, Any]) -> dict[str, Any]:
        if not values:
            raise InvalidItem("$", "expected an array at least, got an empty dict")
        made = {}
        for name, value in values.items():
            kind = self.every or self.fields[name]
            try:
                made[name] = getattr(kind, method)(value)
            except InvalidItem as error:
                raise in_field(name, error) from None
        return made


def _typed_dict(title: str, fields: dict[str, Any]) -> Any:
    return TypedDict(title, fields)  # type: ignore[operator]


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(map(str, names))
