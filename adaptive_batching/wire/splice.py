"""JSON cut into the bytes of its parts, so that no number is ever read and written again.

What strict JSON has no words for, NaN and infinities, some servers write all the same: they are
numbers while a text is cut. What the strict parser still refuses is cut at its brackets and commas
if it is short, for that takes a hundred times as long.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

import msgspec

Raw = bytes | msgspec.Raw
"""The text of one JSON value."""

_NOT_STRICT = (b"NaN", b"Infinity")
# Numbers that can't be mistaken where they stand: no end of one is the beginning of one.
_STAND_INS = (b"7E0", b"7E1", b"7E2", b"7E3", b"7E4", b"7E5", b"7E6", b"7E8", b"7E9")
_SHORT = 2**14  # bytes
_TOKEN = re.compile(rb'"(?>[^"\\]+|\\.)*+"|[\[\]{}:,]|[-+.\w]+|\S', re.DOTALL)
_OPENING = {b"]": b"[", b"}": b"{"}
_STRAY = re.compile(rb"[^-+.\w\[\]{}:,]")
_MEMBER = re.compile(rb'("(?:[^"\\]|\\.)*")\s*:\s*(.+)', re.DOTALL)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


class NotCuttable(ValueError):
    """A text is not JSON, or not of the kind that was expected."""


def members(text: Raw) -> dict[str, msgspec.Raw]:
    """Cut an object into its values, by name; of a name that comes twice the last one counts.

    Raises:
        NotCuttable: It is no object; or not a strict one, and long.
    """
    _check_unicode(text)
    try:
        return _members.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    strict = _Strict(text)
    try:
        found = _members.decode(strict.text)
        if not any(map(strict.stands_in, found)):
            return dict(zip(found, strict.own(found.values()), strict=True))
    except (msgspec.DecodeError, RecursionError):
        pass
    named = map(_named, _parts(text, b"{", b"}"))
    return {name: msgspec.Raw(value) for name, value in named}


def elements(text: Raw) -> list[msgspec.Raw]:
    """Cut an array into its elements.

    Raises:
        NotCuttable: It is no array; or not a strict one, and long.
    """
    _check_unicode(text)
    try:
        return _elements.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    strict = _Strict(text)
    try:
        return strict.own(_elements.decode(strict.text))
    except (msgspec.DecodeError, RecursionError):
        return [*map(msgspec.Raw, _parts(text, b"[", b"]"))]


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


def _check_unicode(text: Raw) -> None:
    """Values are cut out without a look at their strings, and one bad byte would spoil a batch."""
    if isinstance(text, bytes):  # what was cut out of a text that was checked need not be again
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise NotCuttable(f"expected UTF-8: {error}") from error


class _Strict:
    """A text with numbers in the place of what is none in strict JSON.

    Attributes:
        text: In which they stand, within strings too.
    """

    __slots__ = ("_own", "text")

    def __init__(self, text: Raw) -> None:
        self.text = bytes(text)
        free = (number for number in _STAND_INS if number not in self.text)
        self._own = list(zip(free, _NOT_STRICT, strict=False))
        for number, word in self._own:
            self.text = self.text.replace(word, number)

    def own(self, parts: Collection[Raw]) -> list[msgspec.Raw]:
        """What stands in truth where some parts of it stand."""
        if not parts:
            return []
        texts = b"\0".join(parts)  # which strict JSON has none of; all at once, as there are many
        for number, word in self._own:
            texts = texts.replace(number, word)
        return [*map(msgspec.Raw, texts.split(b"\0"))]

    def stands_in(self, name: str) -> bool:
        """Whether a name may not be what it was; escaped, it may have been a number's before."""
        return any(number.decode() in name for number, _ in self._own)


def _parts(raw: Raw, opening: bytes, closing: bytes) -> list[bytes]:
    """What stands between the commas of an array or object, which has to be all of the text."""
    text = bytes(raw)
    if len(text) > _SHORT:
        raise NotCuttable(f"expected strict JSON of {len(text)} bytes, apart from NaN and Infinity")
    outer = [*_outer(text)]
    marks = [token[0] for token in outer]
    if marks[:1] != [opening] or marks[1:][-1:] != [closing]:
        raise NotCuttable(f"expected JSON from {opening.decode()} to {closing.decode()}")
    if {*marks[1:-1]} - {b","}:
        raise NotCuttable("expected one JSON value, got several")
    parts = [text[a.end() : b.start()].strip() for a, b in pairwise(outer)]
    if parts == [b""]:
        return []
    if not all(parts):
        raise NotCuttable("expected a JSON value between two commas")
    return parts


def _outer(text: bytes) -> Iterator[re.Match[bytes]]:
    """The outermost brackets and the commas between them."""
    unclosed: list[bytes] = []
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in _OPENING and (not unclosed or unclosed.pop() != _OPENING[mark]):
            raise NotCuttable(f"expected a bracket to be closed by its like, got {mark!r}")
        if not unclosed or (len(unclosed) == 1 and mark == b","):
            yield token
        if mark in b"[{":
            unclosed.append(mark)
        elif _STRAY.fullmatch(mark):  # what follows it, a neighbour's items too, could be swallowed
            raise NotCuttable(f"expected JSON, got {mark!r}")


def _named(member: bytes) -> tuple[str, bytes]:
    named = _MEMBER.fullmatch(member)
    if named is None:
        raise NotCuttable("expected a name, a colon and a value in a JSON object")
    try:
        return msgspec.json.decode(named[1], type=str), named[2]
    except msgspec.DecodeError as error:
        raise NotCuttable(f"expected a name in a JSON object, got {named[1]!r}") from error
