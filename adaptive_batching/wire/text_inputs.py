"""Texts as embedding servers take them: one or several, as strings or as tokens."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from adaptive_batching.wire.listed import Rows
from adaptive_batching.wire.splice import NotCuttable, Raw, elements

Kind: TypeAlias = Literal["strings", "tokens"]


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
    items = elements(text)
    kinds = {_first(item) for item in items}
    if kinds == {b'"'}:
        return Inputs("strings", items)
    if kinds == {b"["}:
        return Inputs("tokens", items)
    if kinds and kinds <= _DIGITS:
        return Inputs("tokens", [text])
    raise NotCuttable("expected texts, all of them strings or all of them tokens")


def rows_of(beside: Mapping[str, Raw], name: str, items: Sequence[Raw]) -> Rows:
    """A list of texts under a name."""
    return Rows.within(beside, name, Rows(b"", items, b""))


def weight(kind: Kind, item: Raw) -> int:
    """How much of the work it is: its tokens, or else its length in bytes."""
    text = bytes(item)
    return text.count(b",") + 1 if kind == "tokens" else len(text)


_DIGITS = {b"%d" % digit for digit in range(10)}


def _first(text: Raw) -> bytes:
    return bytes(memoryview(text)[:1])
