"""Frames on a byte stream: `u32 length, big-endian | payload`."""

from collections.abc import Sequence
from struct import Struct
from typing import TypeAlias

Part: TypeAlias = bytes | bytearray | memoryview

MAX_LENGTH = 2**30  # far above any batch that is worth sending; garbage read as a length is refused
MAX_CHATTER = 4096  # bytes of a message between a dispatcher and its workers that holds no items
MAX_FRAME = 64 * 2**20  # bytes of a batch, and of its results, unless both sides are told otherwise

_HEADER = Struct(">I")


class FrameTooLong(ValueError):
    """A payload is longer than the two ends agreed on."""


def encode(parts: Sequence[Part], max_length: int = MAX_LENGTH) -> list[Part]:
    """Put a header before the parts of one payload; memory views have to be of single bytes.

    Returns:
        The pieces to write, in order; nothing is copied.

    Raises:
        FrameTooLong: They hold more than `max_length` bytes together.
    """
    length = sum(map(len, parts))
    if length > max_length:
        raise _too_long(length, max_length)
    return [_HEADER.pack(length), *parts]


class FrameDecoder:
    """Cuts a stream of bytes, in whatever chunks it comes, into payloads.

    Each payload is a bytearray of its own, so that arrays can be laid over it and written to.

    Attributes:
        max_length: The longest payload that is accepted (bytes); it may change between payloads.
    """

    def __init__(self, max_length: int = MAX_LENGTH) -> None:
        self.max_length = max_length
        self._header = bytearray()  # the beginning of one, if a chunk ended there
        self._payload: bytearray | None = None  # allocated whole and filled as chunks come
        self._filled = 0

    def feed(self, data: bytes | memoryview) -> list[bytearray]:
        """Take the next chunk and return the payloads that it completes.

        Raises:
            FrameTooLong: A header announces more than `max_length` bytes.
        """
        fresh = self._payload is None and not self._header
        if fresh and len(data) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(data)
            if length == len(data) - _HEADER.size <= self.max_length:
                return [bytearray(memoryview(data)[_HEADER.size :])]  # one whole frame, as most are
        payloads: list[bytearray] = []
        view = memoryview(data)
        start, end = 0, len(view)
        if not fresh:
            start = self._resume(view, payloads)
        while end - start >= _HEADER.size:
            (length,) = _HEADER.unpack_from(view, start)
            if length > self.max_length:
                raise _too_long(length, self.max_length)
            start += _HEADER.size
            if length > end - start:
                self._begin(length, view[start:])
                return payloads
            payloads.append(bytearray(view[start : start + length]))
            start += length
        self._header += view[start:]
        return payloads

    def _resume(self, view: memoryview, payloads: list[bytearray]) -> int:
        """Go on with the frame left open; returns how much of `view` belongs to it."""
        start = 0
        if self._payload is None:
            start = _HEADER.size - len(self._header)
            self._header += view[:start]
            if len(self._header) < _HEADER.size:
                return len(view)
            (length,) = _HEADER.unpack(self._header)
            if length > self.max_length:
                raise _too_long(length, self.max_length)
            self._header.clear()
            self._begin(length, view[:0])
        payload = self._payload
        assert payload is not None
        stop = min(len(view), start + len(payload) - self._filled)
        self._fill(view[start:stop])
        if self._filled == len(payload):
            payloads.append(payload)
            self._payload = None
        return stop

    def _begin(self, length: int, head: memoryview) -> None:
        self._payload = bytearray(length)
        self._filled = 0
        self._fill(head)

    def _fill(self, piece: memoryview) -> None:
        assert self._payload is not None
        stop = self._filled + len(piece)
        self._payload[self._filled : stop] = piece
        self._filled = stop


def _too_long(length: int, max_length: int) -> FrameTooLong:
    return FrameTooLong(f"expected a frame of at most {max_length} bytes, got {length}")
