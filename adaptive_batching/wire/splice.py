"""JSON cut into the bytes of its parts, so that no number is ever read and written again.

What strict JSON has no words for, NaN and infinities, some servers write all the same: they are
numbers while a text is cut.

Requests are cut within bounds, for a client may send anything: before parts are made, which takes
100 ns and 70 bytes each, it is known that there are few; and a text is read a few times at most.
"""

from codecs import getincrementaldecoder
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any, TypeVar

import msgspec
import numpy as np

from adaptive_batching.errors import JobTooLarge

_T = TypeVar("_T")
Raw = bytes | msgspec.Raw
"""The text of one JSON value."""

MOST_ITEMS = 2**16  # of a request: lists of 5 MiB in memory
FEW_ITEMS = 2**13  # of a request, if there are more commas than items may be
LARGE = 2**18  # bytes; in less, there is nothing that takes long
NOT_STRICT_SIZE = 2**20  # bytes: with NaN in it, a text takes ten times as long
_MOST_WORK = 6 * 2**20  # commas and the like that are read: each takes 5 ns
_MOST_MEMBERS = 2**12
_PIECE = 2**16  # bytes

_NOT_STRICT = (b"NaN", b"Infinity")
# Numbers that can't be mistaken where they stand: no end of one is the beginning of one.
_STAND_INS = (b"7E0", b"7E1", b"7E2", b"7E3", b"7E4", b"7E5", b"7E6", b"7E8", b"7E9")
_ESCAPED = ((b"\\\\", b"\0\0"), (b'\\"', b"\0\1"))
_PARTED = (b'"', b"[", b"{")
_NONE = msgspec.Raw()
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


class NotCuttable(ValueError):
    """A text is not JSON, or not of the kind that was expected, or would take too long."""


def members(text: Raw, *, bounded: bool = False, readings: int = 3) -> dict[str, msgspec.Raw]:
    """Cut an object into its values, by name; of a name that comes twice the last one counts.

    Args:
        text: Of the object.
        bounded: Whether a client wrote it, so that it may not cost more than the usual.
        readings: How often such a text is read until it is cut.

    Raises:
        NotCuttable: It is no object, or has more members than objects have.
    """
    check(text, readings=readings if bounded else 0)
    if bounded and length_of(text) > LARGE and _names(text) > MOST_ITEMS:
        raise NotCuttable(f"expected at most {MOST_ITEMS} names in JSON")
    try:
        found = _members.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        strict = _Strict(text, error, bounded=bounded)
        named = strict.decoded(_members)
        found = dict(zip(named, strict.own(named.values()), strict=True))
    if bounded and len(found) > _MOST_MEMBERS:
        raise NotCuttable(f"expected at most {_MOST_MEMBERS} members, got {len(found)}")
    return found


def elements(text: Raw, *, bounded: bool = False) -> list[msgspec.Raw]:
    """Cut an array into its elements.

    Args:
        text: Of the array.
        bounded: Whether a client wrote it, so that it may not cost more than the usual.

    Raises:
        NotCuttable: It is no array.
        JobTooLarge: It has more elements than a request may have items.
    """
    check(text, readings=1 if bounded else 0)
    # Commas say that they are few; where items have commas of their own, only the parser knows.
    few = not bounded or length_of(text) <= MOST_ITEMS or count(text, b",") < MOST_ITEMS
    decoder = _elements if few else decoder_of(at_most(msgspec.Raw, FEW_ITEMS))
    try:
        return listed(decoder.decode(text))
    except msgspec.ValidationError as error:
        if bytes(memoryview(text)[:1]) == b"[":
            raise too_many() from error
        raise NotCuttable(f"expected an array: {error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        strict = _Strict(text, error, bounded=bounded)
        return strict.own(listed(strict.decoded(decoder)))


def too_many(most: int = FEW_ITEMS) -> JobTooLarge:
    """What is raised at a request that would be cut into more items than may be."""
    return JobTooLarge(f"expected at most {most} items in one request, got more")


def listed(found: Any) -> list[Any]:
    """The elements of what was read as a list, or as `at_most` so many."""
    if isinstance(found, list):
        return found
    return [part for part in msgspec.structs.astuple(found) if part is not _NONE]


@cache
def decoder_of(kind: Any) -> "msgspec.json.Decoder[Any]":
    """Remembered, for to make one takes milliseconds."""
    return msgspec.json.Decoder(kind)


@cache
def at_most(kind: Any, most: int) -> type[msgspec.Struct]:
    """A type for arrays: the parser stops at the first element beyond so many of a kind."""
    fields = [(f"part_{number}", kind, _NONE) for number in range(most)]
    return msgspec.defstruct("Few", fields, array_like=True, forbid_unknown_fields=True, gc=False)


def length(text: Raw) -> int:
    """How many elements an array has that was cut out of a text; of plain ones none is cut.

    Raises:
        NotCuttable: It is no array.
        JobTooLarge: It has more elements with parts of their own than a request may have items.
    """
    own = bytes(text)
    plain = own.startswith(b"[") and not any(mark in own[1:] for mark in _PARTED)
    if not plain:
        return len(elements(text, bounded=True))
    return own.count(b",") + 1 if own[1:-1].strip() else 0


def joined(parts: Iterable[Raw]) -> bytes:
    """Make an array of the texts of its elements."""
    return b"[" + b",".join(parts) + b"]"


def object_of(parts: Iterable[tuple[str, Raw]]) -> bytes:
    """Make an object of its names and the texts of their values."""
    named = [_encode(name) + b":" + bytes(value) for name, value in parts]
    return b"{" + b",".join(named) + b"}"


def text_of(value: object) -> bytes:
    """Write a value of our own as JSON; raw texts in it stay what they are."""
    return _encode(value)


_encode = msgspec.json.Encoder().encode


def check(text: Raw, *, readings: int = 0) -> None:
    """See whether a text that just came is fit to be cut.

    Values are cut out without a look at their strings, and one bad byte would spoil a batch.

    Args:
        text: What was cut out of a text that was checked is not checked again.
        readings: How often a client's text is read until it is cut; 0 for a server's.

    Raises:
        NotCuttable: It is not UTF-8, or a client's would take too long to read.
    """
    if not isinstance(text, bytes):
        return
    if not text.isascii():
        _check_unicode(text)
    if len(text) * readings > _MOST_WORK and _work(text) * readings > _MOST_WORK:
        raise NotCuttable(f"expected less than {len(text)} bytes of small values")


def _check_unicode(text: bytes) -> None:
    """Decode it piece by piece, for all of it in characters would be four times as large."""
    decoder = getincrementaldecoder("utf-8")()
    try:
        for begin in range(0, len(text), _PIECE):
            decoder.decode(text[begin : begin + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise NotCuttable(f"expected UTF-8: {error}") from error


def _work(text: bytes) -> int:
    """How much a parser has to do, counted in commas."""
    spaces = int(np.count_nonzero(np.frombuffer(text, np.uint8) <= ord(" ")))
    twice = count(text, b"[") + count(text, b"{") + count(text, b":")
    return count(text, b",") + count(text, b"\\") + 2 * twice + spaces // 2


def length_of(text: Raw) -> int:
    """Bytes of a text."""
    return memoryview(text).nbytes


def count(text: Raw, mark: bytes) -> int:
    """How often a byte is in a text: a millisecond for 8 MiB."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord(mark)))


def _names(text: Raw) -> int:
    """At least as many as there are: colons after a quotation mark, with or without a space."""
    if (colons := count(text, b":")) <= MOST_ITEMS:
        return colons
    data = np.frombuffer(text, np.uint8)
    before = data[:-1]
    named = (data[1:] == ord(":")) & ((before == ord('"')) | (before <= ord(" ")))
    return int(np.count_nonzero(named))


class _Strict:
    """A text with numbers in the place of what is none in strict JSON.

    Args:
        text: Of any JSON.
        error: Why it is not strict.
        bounded: Whether a client wrote it.

    Raises:
        NotCuttable: There is nothing in it that could be a number's place, or it is too long.
    """

    def __init__(self, text: Raw, error: Exception, *, bounded: bool) -> None:
        own = bytes(text)
        found = [word for word in _NOT_STRICT if word in own]
        too_long = bounded and (len(own) > NOT_STRICT_SIZE or own.count(b'"') > MOST_ITEMS)
        if too_long or not found or b"\0" in own:
            raise NotCuttable(f"expected strict JSON, apart from NaN and Infinity: {error}")
        free = (number for number in _STAND_INS if number not in own)
        self._words = list(zip(free, found, strict=False))
        for escaped, hidden in _ESCAPED:
            own = own.replace(escaped, hidden)
        parts = own.split(b'"')  # every other one is a string's
        outside = b'"'.join(parts[::2])
        for number, word in self._words:
            outside = outside.replace(word, number)
        parts[::2] = outside.split(b'"')
        own = b'"'.join(parts)
        for escaped, hidden in reversed(_ESCAPED):
            own = own.replace(hidden, escaped)
        self._text = own

    def decoded(self, decoder: "msgspec.json.Decoder[_T]") -> _T:
        """Read it.

        Raises:
            NotCuttable: It is still not what the decoder takes.
        """
        try:
            return decoder.decode(self._text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise NotCuttable(f"expected JSON: {error}") from error

    def own(self, parts: Collection[Raw]) -> list[msgspec.Raw]:
        """What stands in truth where some parts of it stand."""
        if not parts:
            return []
        texts = b"\0".join(parts)  # all at once, as there are many
        for number, word in self._words:
            texts = texts.replace(number, word)
        return [*map(msgspec.Raw, texts.split(b"\0"))]
