"""Any MessagePack API that takes a list of items and answers with a list of results.

The same as generic JSON: pointers say where the lists are, and items travel as the bytes that came.
"""

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from adaptive_batching.wire.generic import GenericJSON
from adaptive_batching.wire.item_cost import Notation
from adaptive_batching.wire.large import cut_out
from adaptive_batching.wire.listed import Rows
from adaptive_batching.wire.splice import MOST_ITEMS, NotCuttable, Raw, length_of, too_many

_members = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.msgpack.Decoder(list[msgspec.Raw])
_few_members = msgspec.msgpack.Decoder(
    Annotated[dict[str, msgspec.Raw], msgspec.Meta(max_length=2**12)]
)
_MOST_DENSE = 3 * 2**20  # bytes: each may be a value, or open one, which takes 6 ns whenever read
_MOST_LOOKS = 2**13
_encode = msgspec.msgpack.Encoder().encode
_NOT_CUTTABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def members(text: Raw, *, bounded: bool = False) -> dict[str, msgspec.Raw]:
    """Cut a map into its values, by name.

    Args:
        text: Of the map.
        bounded: Whether a client wrote it.

    Raises:
        NotCuttable: It is no map of names, or of too many.
    """
    try:
        return (_few_members if bounded else _members).decode(text)
    except _NOT_CUTTABLE as error:
        raise NotCuttable(f"expected a map: {error}") from error


def elements(text: Raw, *, bounded: bool = False) -> list[msgspec.Raw]:
    """Cut an array into its elements.

    Args:
        text: Of the array.
        bounded: Whether a client wrote it.

    Raises:
        NotCuttable: It is no array.
        JobTooLarge: It has more elements than a request may have items.
    """
    if bounded:
        _check(text)
    try:
        return _elements.decode(text)
    except _NOT_CUTTABLE as error:
        raise NotCuttable(f"expected an array: {error}") from error


def length(text: Raw) -> int:
    """How many elements an array has; its first bytes say it.

    Raises:
        NotCuttable: It is no array.
    """
    begin = bytes(memoryview(text)[:5])
    width, _, inside, few = _FIRST[begin[0]]
    if inside != 1:
        raise NotCuttable("expected an array")
    return int.from_bytes(begin[1 : 1 + width]) if width else few


class PackedRows(Rows, frozen=True):
    """A list of a MessagePack value, and the bytes around it in a form of its own."""

    notation = Notation(
        members, length, msgspec.msgpack.Decoder(str).decode, msgspec.msgpack.Decoder(float).decode
    )
    elements: ClassVar = staticmethod(elements)
    members: ClassVar = staticmethod(members)

    @staticmethod
    def cut_out(body: bytes, pointer: tuple[str, ...]) -> tuple[msgspec.Raw, bytes]:
        """Return the list of a large body, and the body without its items; see `Rows.cut_out`."""
        _check(body)
        return cut_out(body, pointer, b"\x90", msgspec.msgpack.Decoder)

    @classmethod
    def within(cls, beside: Mapping[str, Raw], name: str, inner: Rows) -> Rows:
        """Put a list into a map, under a name that comes last."""
        others = b"".join(_encode(other) + bytes(value) for other, value in sorted(beside.items()))
        head = _header(len(beside) + 1, 0x80, 0xDE)
        return cls(head + others + _encode(name) + inner.before, inner.items, inner.after)

    def text(self, items: Sequence[Raw] | None = None) -> bytes:
        """The whole, with these items in the list or its own."""
        parts = self.items if items is None else items
        return b"".join([self.before, _header(len(parts), 0x90, 0xDC), *parts, self.after])


class GenericMsgpack(GenericJSON):
    """Return the length of a MessagePack value."""

    rows = PackedRows


def _check(text: Raw) -> None:
    """See whether a client's value can be cut soon; what came from the wire is not yet a `Raw`."""
    begin = bytes(memoryview(text)[:5])
    if begin[:1] == b"\xdd" and (claimed := int.from_bytes(begin[1:])) > MOST_ITEMS:
        if claimed < length_of(text):
            raise too_many(MOST_ITEMS)
        raise NotCuttable(f"expected {claimed} elements, got {length_of(text)} bytes")
    came = not isinstance(text, msgspec.Raw)
    if came and len(memoryview(text)) > _MOST_DENSE and not _has_few_values(text):
        raise NotCuttable(f"expected less than {len(text)} bytes of small values")


def _has_few_values(text: bytes) -> bool:
    """Whether a value is mostly strings, bytes and lists of floats, which need not be looked at."""
    at, left = 0, 1
    for _ in range(_MOST_LOOKS):
        if not left or at >= len(text):
            return True
        width, head, inside, length = _FIRST[text[at]]
        if width:
            length = int.from_bytes(text[at + 1 : at + 1 + width])
        at += head
        floats = _floats(text, at, length) if inside == 1 else 0
        at += floats if inside else length
        left += (0 if floats else inside * length) - 1
    return False


def _floats(text: bytes, at: int, length: int) -> int:
    """Bytes of the elements of a list, if all are floats of one width; otherwise 0."""
    first = text[at : at + 1]
    width = {b"\xca": 5, b"\xcb": 9}.get(first, 0)
    if not width or at + width * length > len(text):
        return 0
    values = np.frombuffer(text, np.uint8, width * length, at)[::width]
    return width * length if (values == first[0]).all() else 0


def _first_bytes() -> list[tuple[int, int, int, int]]:
    """What a value's first byte says, by the specification of MessagePack.

    How many bytes of a length follow, or else the length; how many bytes stand before what the
    length counts: values of which each element has so many, or bytes if none.
    """
    table = [(0, 1, 0, 0)] * 256
    for length in range(16):
        table[0x80 + length], table[0x90 + length] = (0, 1, 2, length), (0, 1, 1, length)
    for length in range(32):
        table[0xA0 + length] = (0, 1, 0, length)
    for kind, width in enumerate((1, 2, 4)):
        table[0xC4 + kind] = table[0xD9 + kind] = (width, 1 + width, 0, 0)
        table[0xC7 + kind] = (width, 2 + width, 0, 0)
    for kind, length in enumerate((4, 8, 1, 2, 4, 8, 1, 2, 4, 8)):
        table[0xCA + kind] = (0, 1, 0, length)
    for kind, length in enumerate((1, 2, 4, 8, 16)):
        table[0xD4 + kind] = (0, 2, 0, length)
    for kind, width in enumerate((2, 4)):
        table[0xDC + kind], table[0xDE + kind] = (width, 1 + width, 1, 0), (width, 1 + width, 2, 0)
    return table


_FIRST = _first_bytes()


def _header(length: int, short: int, long: int) -> bytes:
    """How an array or map of so many elements begins.

    See the specification of MessagePack: up to 15 they are in the one byte, above 65535 the byte
    after `long` says that four bytes follow.
    """
    if length < 16:
        return bytes([short | length])
    return pack(">BH", long, length) if length < 2**16 else pack(">BI", long + 1, length)
