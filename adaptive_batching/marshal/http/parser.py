"""aiohttp's parser of a connection's requests, with what it gets wrong as of 3.14.5 put right."""

from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import StreamReader
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestPayloadError, _ErrInfo

from adaptive_batching.marshal.http.framing import Framing, Lost


class Parser:
    """Parses a connection; after a request with trailers with a parser that has not seen them.

    Args:
        make: Makes aiohttp's.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._parser = make()
        self._framing = Framing()
        self._is_lost = False
        self._waiting = 0  # requests that nobody has begun with
        self._last: StreamReader = EMPTY_PAYLOAD  # the last request's body
        self._early: StreamReader | None = None  # the body of one that was begun without all of it

    def __getattr__(self, name: str) -> Any:
        """Whatever else aiohttp asks of its own."""
        return getattr(self._parser, name)

    def message_consumed(self) -> None:
        """Somebody begins with the first that waits.

        aiohttp's counts a request when all of it is there. Told of one before that, it would count
        one too many, and stop parsing where nobody knows that it has.
        """
        self._waiting -= 1
        if self._waiting > 0 or self._last.is_eof():
            self._parser.message_consumed()
        else:
            self._early = self._last

    def feed_data(self, data: bytes) -> tuple[Sequence[Any], bool, bytes]:
        """Parse what has come; nothing, to go on with what came before.

        Returns:
            Requests with their bodies, and an error after them if what follows can't be told
            apart; whether another protocol is spoken from now on; what has come of that.

        Raises:
            HttpProcessingError: It is no request.
        """
        if self._is_lost:
            if not self._last.is_eof():
                self._parser.feed_data(b"")  # may have left some of it
            return (), False, b""
        if data and self._framing.tainted and self._framing.is_between():
            self._parser = self._make()
            self._framing.tainted = False
        try:
            messages, upgraded, tail = self._fed(data)
        except HttpProcessingError as malformed:
            self._give_up_body(malformed)
            raise
        try:
            return self._framing.follow(data, messages, upgraded=upgraded), upgraded, tail
        except Lost as lost:
            self._is_lost = True
            if self._framing.is_inside():
                self._give_up_body(lost.error)
            error = _ErrInfo(status=400, exc=lost.error, message=lost.error.message)
            return [*lost.found, (error, EMPTY_PAYLOAD)], False, b""

    def _fed(self, data: bytes) -> tuple[Sequence[Any], bool, bytes]:
        """What aiohttp's makes of it, and of what it left because it counted too many."""
        messages, upgraded, tail = self._parser.feed_data(data)
        self._note(messages)
        early = self._early
        if early is None or not early.is_eof():
            return messages, upgraded, tail
        self._early = None
        self._parser.message_consumed()
        if upgraded:
            return messages, upgraded, tail
        more, upgraded, tail = self._parser.feed_data(b"")
        self._note(more)
        return [*messages, *more], upgraded, tail

    def _note(self, messages: Sequence[Any]) -> None:
        if messages:
            self._waiting += len(messages)
            _, self._last = messages[-1]

    def _give_up_body(self, error: HttpProcessingError) -> None:
        """Let nobody wait for the rest of a body that can't be parsed any further."""
        if not self._last.is_eof():
            self._last.set_exception(RequestPayloadError(error.message))
