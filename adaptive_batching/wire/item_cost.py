"""What an item costs, read off its text: its bytes, its characters, or what stands in it.

No more of an item is decoded than that takes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from adaptive_batching.errors import SettingError
from adaptive_batching.units import LARGEST_COST
from adaptive_batching.wire.pointer import format_pointer, parse_pointer
from adaptive_batching.wire.splice import NotCuttable, Raw, length, length_of, members

_LENGTH = ":length"
_NOT_READ = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Notation(NamedTuple):
    """What can be read off a value without decoding what is in it.

    Attributes:
        members: The texts of an object's members, by name.
        length: How many elements an array has.
        string: A string.
        number: A number.
    """

    members: Callable[..., Mapping[str, Raw]]
    length: Callable[[Raw], int]
    string: Callable[[Raw], str]
    number: Callable[[Raw], float]


JSON = Notation(
    members, length, msgspec.json.Decoder(str).decode, msgspec.json.Decoder(float).decode
)

ItemCost: TypeAlias = Callable[[Raw, Notation], float]
"""What an item with this text costs.

Raises:
    NotCuttable: It does not hold what its cost is read off.
"""


def byte_cost(text: Raw, notation: Notation) -> float:
    """The length of an item, as it came."""
    return length_of(text)


def character_cost(text: Raw, notation: Notation) -> float:
    """The characters of an item that is a string, or else its length in bytes."""
    try:
        return len(notation.string(text))
    except _NOT_READ:
        return length_of(text)


@dataclass(frozen=True, slots=True)
class PointedCost:
    """The number at a place of an item, or the length of the array or string there.

    Attributes:
        pointer: The names on the way to it; none for the item itself.
        by_length: Whether its length counts.
    """

    pointer: tuple[str, ...]
    by_length: bool

    def __call__(self, text: Raw, notation: Notation) -> float:
        """The cost of one item; see `ItemCost`."""
        for name in self.pointer:
            found = notation.members(text, bounded=True)
            if name not in found:
                raise NotCuttable(f"expected {name!r} in an item, to read its cost")
            text = found[name]
        try:
            return self._length(text, notation) if self.by_length else _number(text, notation)
        except _NOT_READ as error:
            wanted = "a list or a string" if self.by_length else "a number"
            place = f" at {format_pointer(self.pointer)}" if self.pointer else ""
            got = str(error).rpartition(", got ")[2].strip("`")  # as msgspec ends what it says
            raise NotCuttable(f"expected {wanted}{place}, got {got}") from error

    @staticmethod
    def _length(text: Raw, notation: Notation) -> float:
        try:
            return notation.length(text)
        except NotCuttable:
            return len(notation.string(text))


def parse_item_cost(text: str) -> ItemCost:
    """Read what a cost is: `bytes`, `chars`, `/pointer` or `/pointer:length`.

    Raises:
        SettingError: It is none of these.
    """
    if text in _NAMED:
        return _NAMED[text]
    by_length = text.endswith(_LENGTH)
    pointer = text.removesuffix(_LENGTH)
    mistyped = not by_length and ":" in pointer.rpartition("/")[2]
    if mistyped or not (pointer.startswith("/") or (by_length and not pointer)):
        msg = (
            "expected bytes, chars, or where an item has its cost, such as /tokens:length or /size"
        )
        raise SettingError("cost", f"{msg}, got {text!r}")
    return PointedCost(parse_pointer("cost", pointer), by_length)


def _number(text: Raw, notation: Notation) -> float:
    cost = notation.number(text)
    if not 0 <= cost <= LARGEST_COST:
        raise NotCuttable(f"expected a cost from 0 to {LARGEST_COST:g}, got {cost:g}")
    return cost


_NAMED: Mapping[str, ItemCost] = {"bytes": byte_cost, "chars": character_cost}
