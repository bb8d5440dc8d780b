"""Texts as embedding servers take them: one or several, as strings or as tokens.

There may be thousands in a body, and no other client is served until they are read: so the parser
cuts them, their first bytes say what they are, and none is looked at by itself.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from adaptive_batching.wire.listed import Rows
from adaptive_batching.wire.splice import MOST_ITEMS, NotCuttable, Raw, count, elements

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
    if first_byte(text) == b'"':
        return Inputs("strings", [text])
    kind, items = read_array(text)
    return Inputs("strings" if kind == "strings" else "tokens", items)


def read_array(text: Raw) -> tuple[ArrayOf, Sequence[Raw]]:
    """Read an array of things that are alike: what they are, and each; numbers are one text.

    Raises:
        NotCuttable: It is none, or empty, a mixture or too long for one text.
        JobTooLarge: It has more elements than a request may have items.
    """
    begin = _BEGIN.match(text)
    kind = _KINDS.get(begin[1], "numbers") if begin else None
    if kind == "numbers":
        if count(text, b",") > MOST_ITEMS:
            raise NotCuttable(f"expected at most {MOST_ITEMS} tokens of one text")
        try:
            _numbers.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise NotCuttable(f"expected tokens: {error}") from error
        return kind, [text]
    if kind is not None:
        items = elements(text, bounded=True)
        if len({*map(_first, map(_view, items))}) == 1:
            return kind, items
    raise NotCuttable("expected texts, all of them strings or all of them tokens")


def first_byte(text: Raw) -> bytes:
    """Which says what a value is."""
    return bytes(memoryview(text)[:1])


def rows_of(beside: Mapping[str, Raw], name: str, items: Sequence[Raw]) -> Rows:
    """A list of texts under a name."""
    return Rows.within(beside, name, Rows(b"", items, b""))


def weight(kind: Kind, item: Raw) -> int:
    """How much of the work it is: its tokens, or else its length in bytes."""
    text = bytes(item)
    return text.count(b",") + 1 if kind == "tokens" else len(text)


_BEGIN = re.compile(rb"\[\s*(.)")
_KINDS: Mapping[bytes, ArrayOf] = {b'"': "strings", b"[": "arrays"}
_view: Callable[[Raw], memoryview] = memoryview
_first = itemgetter(0)
_not_below_0 = msgspec.Meta(ge=0)
_numbers = msgspec.json.Decoder(
    Annotated[
        list[Annotated[int, _not_below_0] | Annotated[float, _not_below_0]],
        msgspec.Meta(min_length=1),
    ]
)
