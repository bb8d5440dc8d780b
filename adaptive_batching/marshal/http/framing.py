"""Where the requests of a connection end, which aiohttp's parser does not tell.

What it gets wrong as of 3.14.5 depends on that. Its C parser puts the last trailer of one request
before the headers of the next: behind a proxy that passes trailers on and shares its connections
among clients, one of them could speak in the name of another. And it forgets what comes in one read
with the end of a request whose wish to upgrade is declined, `h2c` above all.
"""

from collections.abc import Sequence
from typing import NoReturn

from aiohttp import StreamReader, hdrs
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.streams import EMPTY_PAYLOAD

_END = b"\r\n\r\n"  # of a head
_LINE = b"\r\n"
_LONGEST_LINE = 2**14  # bytes of a chunk's size with its extensions, and of a trailer
_LONGEST_HEAD = 2**21  # bytes; the parser has its own, but forgets to count some spaces
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")
_MOST_DIGITS = 18  # of a length; the parser takes the largest number for none

_Parsed = tuple[RawRequestMessage, StreamReader]


class Framing:
    """Follows a parser through the bytes of a connection.

    It finds the end of a head where the parser has found one, and trusts it for the rest.

    Attributes:
        tainted: Whether the last request has trailers, which the parser takes for the next one's.
    """

    __slots__ = ("_ahead", "_body", "_forgets", "_in_chunks", "_in_trailers", "_left", "tainted")

    def __init__(self) -> None:
        self.tainted = False
        self._ahead = bytearray()  # what has come after all that could be followed so far
        self._left = 0  # bytes of a body, or of a chunk and its end
        self._in_chunks = self._in_trailers = False
        self._forgets = False  # whether the parser does, what comes with the end of the last one
        self._body: StreamReader = EMPTY_PAYLOAD

    def is_between(self) -> bool:
        """Whether the last request has ended, and of the next one nothing has come."""
        return not self._ahead and not self.is_inside() and self._body.is_eof()

    def is_inside(self) -> bool:
        """Whether some of the last request's body has not come yet."""
        return bool(self._left) or self._in_chunks

    def follow(
        self, data: bytes, parsed: Sequence[_Parsed], *, upgraded: bool
    ) -> Sequence[_Parsed]:
        """Go on to where the next head has to be parsed.

        Args:
            data: What has come.
            parsed: The requests whose heads the parser has found since, with their bodies.
            upgraded: Whether another protocol is spoken after the last one.

        Returns:
            The same; those that have to be the last of their connection say so.

        Raises:
            Lost: After some of them it can't be known what is whose.
        """
        if len(parsed) == 1 and self.is_between() and self._came_whole(data, *parsed[0]):
            return parsed
        come: bytes | bytearray = data
        if self._ahead:
            self._ahead += data
            come = self._ahead
        found: list[_Parsed] = []
        try:
            at = self._skip(come, 0)
            for message, body in parsed:
                at = self._skip(come, self._pass_head(come, at, message))
                self._body = body
                if self._is_last(message, at < len(come)):
                    self._forgets = False  # what follows will not be waited for
                    message = message._replace(should_close=True)  # noqa: PLW2901
                found.append((message, body))
            if upgraded:
                at = len(come)
            elif self._forgets and at < len(come) and not self.is_inside():
                self._refuse_what_follows()
            self._keep(come, at)
        except BadHttpMessage as error:
            raise Lost(found, error) from None
        self._forgets &= self.is_inside()
        return found

    def _came_whole(self, data: bytes, message: RawRequestMessage, body: StreamReader) -> bool:
        """Whether some data is one request with all of its body, as most are; a shorter way."""
        if self.tainted or message.upgrade or message.chunked or not body.is_eof():
            return False
        return data.find(_END) + len(_END) + _length(message) == len(data)

    def _is_last(self, message: RawRequestMessage, more: bool) -> bool:  # noqa: FBT001
        """Whether nobody could tell what comes after a request that wishes to upgrade."""
        if self._forgets:
            return more and not self.is_inside()
        # It may be declined before its body is there, and be granted after that.
        return message.upgrade and (message.chunked or _length(message) > 0)

    def _refuse_what_follows(self) -> NoReturn:
        raise BadHttpMessage("a request follows at once one that wishes to upgrade")

    def _keep(self, come: bytes | bytearray, at: int) -> None:
        if come is self._ahead:
            del self._ahead[:at]
        elif at < len(come):
            self._ahead += memoryview(come)[at:]
        if len(self._ahead) > _LONGEST_HEAD:
            raise BadHttpMessage("a head is too long")

    # ------------------------------------------------------------------ from one place to the next

    def _pass_head(self, come: bytes | bytearray, at: int, message: RawRequestMessage) -> int:
        if self.tainted:
            raise BadHttpMessage("a request follows another's trailers at once")
        end = come.find(_END, at)
        if end < 0 or self.is_inside():
            raise BadHttpMessage("a head ends where none can")
        _check_coding(message)
        self._forgets = message.upgrade and not _may_be_granted(message)
        if message.method != hdrs.METH_CONNECT:
            self._in_chunks, self._left = message.chunked, _length(message)
        return end + len(_END)

    def _skip(self, come: bytes | bytearray, at: int) -> int:
        """Pass what is left of a body, and line ends before a head, as far as they have come."""
        while True:
            step = min(self._left, len(come) - at)
            self._left -= step
            at += step
            if self._left:
                return at
            if not self._in_chunks:
                break
            end = come.find(_LINE, at, at + _LONGEST_LINE)
            if end < 0:
                if len(come) - at >= _LONGEST_LINE:
                    raise BadHttpMessage("the line before a chunk, or a trailer, is too long")
                return at
            self._pass_line(come[at:end])
            at = end + len(_LINE)
        while at < len(come) and come[at] in _LINE:
            at += 1
        return at

    def _pass_line(self, line: bytes | bytearray) -> None:
        """The size of a chunk, a trailer, or the end of them."""
        if self._in_trailers:
            self._in_chunks = self._in_trailers = bool(line)
            self.tainted |= bool(line)
            return
        size, *_ = line.split(b";", 1)
        if not _HEXADECIMAL.issuperset(size) or not size:
            raise BadHttpMessage("a chunk does not say its size")
        self._left = int(size, 16)
        if self._left:
            self._left += len(_LINE)
        else:
            self._in_trailers = True


class Lost(Exception):
    """What comes can't be told apart any more.

    Attributes:
        found: The requests before that.
        error: What is wrong.
    """

    def __init__(self, found: list[_Parsed], error: BadHttpMessage) -> None:
        super().__init__(error.message)
        self.found = found
        self.error = error


def _check_coding(message: RawRequestMessage) -> None:
    """See to it that a body comes as it is, or in chunks and nothing else.

    The parser overlooks what is chunked last, and all of them where the request wishes to upgrade;
    a coding that nobody undoes would be dropped with the header.
    """
    codings = message.headers.getall(hdrs.TRANSFER_ENCODING, ())
    if codings and not (message.chunked and [*map(str.lower, codings)] == ["chunked"]):
        raise BadHttpMessage("a body in a coding other than chunks")


def _length(message: RawRequestMessage) -> int:
    length = message.headers.get(hdrs.CONTENT_LENGTH, "0")
    if len(length) > _MOST_DIGITS or not length.isdecimal():
        raise BadHttpMessage("a length is no number, or too large")
    return int(length)


def _may_be_granted(message: RawRequestMessage) -> bool:
    """Whether the parser knows the protocol that is wished for."""
    protocol = message.headers.get(hdrs.UPGRADE, "")
    known = protocol.isascii() and protocol.lower() == "websocket"
    return message.method == hdrs.METH_CONNECT or known
