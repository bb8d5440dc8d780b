"""Any MessagePack API that takes a list of items and answers with a list of results.

The same as generic JSON: pointers say where the lists are, and items travel as the bytes that came.
"""

from collections.abc import Mapping, Sequence
from struct import pack
from typing import ClassVar

import msgspec

from adaptive_batching.wire.exchange import Request
from adaptive_batching.wire.generic import Pointed
from adaptive_batching.wire.listed import Rows, RowShare, share_of
from adaptive_batching.wire.splice import NotCuttable, Raw

_members = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.msgpack.Decoder(list[msgspec.Raw])
_encode = msgspec.msgpack.Encoder().encode
_NOT_CUTTABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def members(text: Raw) -> dict[str, msgspec.Raw]:
    """Cut a map into its values, by name.

    Raises:
        NotCuttable: It is no map of names.
    """
    try:
        return _members.decode(text)
    except _NOT_CUTTABLE as error:
        raise NotCuttable(f"expected a map: {error}") from error


def elements(text: Raw) -> list[msgspec.Raw]:
    """Cut an array into its elements.

    Raises:
        NotCuttable: It is no array.
    """
    try:
        return _elements.decode(text)
    except _NOT_CUTTABLE as error:
        raise NotCuttable(f"expected an array: {error}") from error


class PackedRows(Rows, frozen=True):
    """A list of a MessagePack value, and the bytes around it in a form of its own."""

    elements: ClassVar = staticmethod(elements)
    members: ClassVar = staticmethod(members)

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


class GenericMsgpack(Pointed[RowShare]):
    """Packed rows."""

    def _share(self, request: Request) -> RowShare | None:
        rows = PackedRows.find(request.message.body, self._items)
        return share_of(request, rows, self._results)


def _header(length: int, short: int, long: int) -> bytes:
    """How an array or map of so many elements begins.

    See the specification of MessagePack: up to 15 they are in the one byte, above 65535 the byte
    after `long` says that four bytes follow.
    """
    if length < 16:
        return bytes([short | length])
    return pack(">BH", long, length) if length < 2**16 else pack(">BI", long + 1, length)
