"""Texts as embedding servers take them: one or several, as strings or as tokens.

There may be millions in a body, and nobody else is served until they are read: so the parser says
what they are, and none is looked at by itself.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec

from adaptive_batching.wire.listed import Rows
from adaptive_batching.wire.splice import NotCuttable, Raw, elements

Kind: TypeAlias = Literal["strings", "tokens"]
ArrayOf: TypeAlias = Literal["strings", "arrays", "numbers"]


class Inputs(NamedTuple):
    """Texts of one kind.

    Attributes:
        kind: What they are.
        items: The JSON of each.
    """

    kind: Kind
    items: Sequence[Raw]


def read_inputs(text: Raw) -> Inputs:
    """Read a string, an array of strings, one text's tokens, or an array of several texts' tokens.

    Raises:
        NotCuttable: It is none of these, such as a mixture, or holds nothing.
    """
    if _first(text) == b'"':
        return Inputs("strings", [text])
    match array_of(text):
        case "strings":
            return Inputs("strings", elements(text))
        case "arrays":
            return Inputs("tokens", elements(text))
        case "numbers":
            return Inputs("tokens", [text])
    raise NotCuttable("expected texts, all of them strings or all of them tokens")


def array_of(text: Raw) -> ArrayOf | None:
    """What all elements of an array are; None for nothing, a mixture, and what is no strict JSON.

    No number is below 0.
    """
    for kind, decoder in _ARRAYS.items():
        try:
            decoder.decode(text)
        except (msgspec.DecodeError, RecursionError):
            continue
        return kind
    return None


def rows_of(beside: Mapping[str, Raw], name: str, items: Sequence[Raw]) -> Rows:
    """A list of texts under a name."""
    return Rows.within(beside, name, Rows(b"", items, b""))


def weight(kind: Kind, item: Raw) -> int:
    """How much of the work it is: its tokens, or else its length in bytes."""
    text = bytes(item)
    return text.count(b",") + 1 if kind == "tokens" else len(text)


class _Array(msgspec.Struct, array_like=True, gc=False):
    """An array; of what, is skipped."""


def _array_of(element: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(Annotated[list[element], msgspec.Meta(min_length=1)])


_not_below_0 = msgspec.Meta(ge=0)
# The first element that is something else ends the search.
_ARRAYS: Mapping[ArrayOf, "msgspec.json.Decoder[Any]"] = {
    "strings": _array_of(str),
    "arrays": _array_of(_Array),
    "numbers": _array_of(Annotated[int, _not_below_0] | Annotated[float, _not_below_0]),
}


def _first(text: Raw) -> bytes:
    return bytes(memoryview(text)[:1])
