"""aiohttp's parser, kept from taking the trailers of one request for headers of the next.

Its C parser, as of 3.14.5, puts the fields that follow the last chunk of a body at the beginning of
the headers of whatever comes next on the connection. Behind a proxy that passes trailers on and
shares its connections among clients, one of them could speak in the name of another.
"""

from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import StreamReader
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage

_LITTLE = 4096  # bytes that may be kept for nothing
_END = b"\r\n\r\n"  # of chunks, with trailers or without, and of no part of a request's head


class UntaintedParser:
    """Parses a connection; after a chunked request with a parser that has seen no trailers.

    Args:
        make: Makes aiohttp's.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._parser = make()
        self._chunked: StreamReader | None = None  # the body of the last request, if in chunks
        self._fed = b""  # the end of what has come, with all of what may follow that body
        self._last: RawRequestMessage | None = None
        self._since = 0  # bytes that have come with the last request's head, and after it
        self._paused = False  # with something left, perhaps, that has come and is not parsed yet

    def __getattr__(self, name: str) -> Any:
        """Whatever else aiohttp asks of its own."""
        return getattr(self._parser, name)

    def message_consumed(self) -> None:
        """As aiohttp's, without the detour: it is said for every request."""
        self._parser.message_consumed()

    def pause_reading(self) -> None:
        """As aiohttp's."""
        self._paused = True
        self._parser.pause_reading()

    def feed_data(self, data: bytes) -> tuple[Sequence[Any], bool, bytes]:
        """Parse what has come.

        Raises:
            BadHttpMessage: A request follows a chunked one at once, and its headers are not those
                that stand there.
        """
        if data:  # else it goes on with what it was given before
            self._keep(data)
        self._paused = False
        messages, upgraded, tail = self._parser.feed_data(data)
        for message, body in messages:
            if self._chunked is not None and not _stands_in(self._fed, message):
                raise BadHttpMessage("a request follows another's trailers at once")
            self._chunked = body if message.chunked else None
            self._last, self._since = message, len(self._fed)
        if not messages:
            self._since += len(data)
        if self._chunked is None and len(self._fed) > _LITTLE:
            self._forget_body(unfinished=bool(messages) or self._paused)
        return messages, upgraded, tail

    def _keep(self, data: bytes) -> None:
        """Some more has come; where a chunked request ends with it, another parser is next.

        Not where the next request has begun: the one that has seen its beginning has to go on.
        """
        if self._chunked is None:
            self._fed = data
        elif not self._chunked.is_eof():
            self._fed = self._fed[1 - len(_END) :] + data
        elif self._fed.endswith(_END):
            self._parser, self._chunked, self._fed = self._make(), None, data
        else:
            self._fed += data

    def _forget_body(self, *, unfinished: bool) -> None:
        """Keep no more than may follow the last request, if the parser may not have come to that.

        With a connection each, it would take as much memory again as the bodies.
        """
        beyond = 0
        if unfinished and self._last is not None:
            length = int(self._last.headers.get("Content-Length", 0))
            beyond = self._since - length  # its head, and what follows
        self._fed = self._fed[-beyond:] if beyond > 0 else b""


def _stands_in(data: bytes, message: RawRequestMessage) -> bool:
    """Whether the first header of a request is the one after its first line."""
    line = f"{message.method} {message.path} HTTP/{message.version.major}.{message.version.minor}"
    first = message.raw_headers[0][0] if message.raw_headers else b""
    return line.encode("utf-8", "surrogateescape") + b"\r\n" + first in data
