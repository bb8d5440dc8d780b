"""One connection of a client, as aiohttp serves it, with the gaps closed that it leaves to us."""

import asyncio
import logging
import socket
import sys
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Protocol, cast

from aiohttp import HttpVersion11, web
from aiohttp.http import HttpRequestParser, RawRequestMessage
from aiohttp.web_protocol import RequestPayloadError

from adaptive_batching.core import Passage
from adaptive_batching.marshal.rejections import Rejected, rejection
from adaptive_batching.marshal.request_ids import new_request_id
from adaptive_batching.marshal.untainted import UntaintedParser

_log = logging.getLogger("adaptive_batching.marshal")

_LAST_RECEIVED = slice(52, 56)  # tcpi_last_data_recv in struct tcp_info, linux/tcp.h: milliseconds
_SPARE = 5e-3  # seconds in which nobody else is asked if nobody has waited
_TICK = 4e-3  # seconds; by which that may be wrong, for the kernel counts in ticks


class TurnsAway(Protocol):
    """Who may refuse requests before they are read any further.

    Attributes:
        pressed: Whether the last one was refused, so that it is worth to ask.
    """

    pressed: bool

    def turn_away(self, message: RawRequestMessage, unread: float, now: float) -> bytes | None:
        """All of the answer to a request that lay unread for some seconds; None to look at it."""
        ...


class KernelWait:
    """How long what is read has waited in the kernel: asked of all only while anybody has waited.

    The answer costs a twentieth of a request, and those that are read together waited alike.
    """

    __slots__ = ("_asked", "_last")

    def __init__(self) -> None:
        self._last, self._asked = 0.0, -inf

    def of(self, connection: Any, now: float) -> float:
        """Seconds for which a socket's last bytes have waited, at the least.

        Args:
            connection: The socket.
            now: The present (monotonic seconds).
        """
        if not self._last and now - self._asked < _SPARE:
            return 0.0
        self._asked = now
        try:
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_RECEIVED.stop)
        except (OSError, TypeError):  # a Unix socket; uvloop shows nothing of its sockets
            return 0.0
        waited = int.from_bytes(info[_LAST_RECEIVED], sys.byteorder) * 1e-3
        self._last = max(0.0, waited - _TICK)
        return self._last


class Connection(web.RequestHandler):
    """Knows when its last request came, and answers what can't be parsed as every other error.

    aiohttp would echo the client's input.

    Attributes:
        unread: Seconds for which the last bytes lay in the kernel, at the least.
        read: When they were read (monotonic seconds).
        prompt: Whether nothing was being answered then, so that they need not wait for that.
    """

    __slots__ = ("_kernel_wait", "_socket", "_turns_away", "prompt", "read", "unread")

    def __init__(
        self,
        *arguments: Any,
        turns_away: TurnsAway | None,
        kernel_wait: KernelWait,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        make = partial(
            HttpRequestParser,
            self,
            self._loop,
            self._read_bufsize,
            max_line_size=self.max_line_size,
            max_field_size=self.max_field_size,
            max_headers=self.max_headers,
            payload_exception=RequestPayloadError,
            auto_decompress=options["auto_decompress"],
            max_msg_queue_size=self._max_msg_queue_size,
        )
        self._parser: Any = UntaintedParser(make)
        self._turns_away, self._kernel_wait = turns_away, kernel_wait

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._socket: Any = transport.get_extra_info("socket")
        self.read, self.unread, self.prompt = monotonic(), 0.0, True
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self.read = now = monotonic()
        self.unread = unread = self._kernel_wait.of(self._socket, now)
        self.prompt = self._current_request is None
        waiter = self._waiter
        door = self._turns_away
        asked = door is not None and (unread or door.pressed)
        if not asked or waiter is None or waiter.done():
            super().data_received(data)
            return
        self._waiter = None  # so that what is parsed wakes nobody yet
        super().data_received(data)
        self._waiter = waiter
        if self._messages and not self._turned_away():
            waiter.set_result(None)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Called by aiohttp."""
        if request.writer.output_size:
            raise ConnectionError("the answer has begun already, and can't become an error")
        name = new_request_id()
        if status < 500:
            _log.debug("request %s can't be parsed: %r", name, message)
        else:
            _log.error("request %s failed", name, exc_info=exc)
        code = "malformed" if status < 500 else "internal"
        return rejection(Rejected(status, code, closes=True), name)

    def _turned_away(self) -> bool:
        """Refuse what was just parsed if that is plain already, at a fraction of the usual cost."""
        assert self._turns_away is not None
        (message, payload), *more = self._messages
        if more or not isinstance(message, RawRequestMessage) or not payload.is_eof():
            return False
        if self._reading_paused:  # by a large body, until somebody reads it
            return False
        if message.should_close or message.upgrade or message.version != HttpVersion11:
            return False
        transport = cast("asyncio.Transport", self.transport)
        if transport.get_write_buffer_size():  # who does not read is not to pile up answers
            return False
        refusal = self._turns_away.turn_away(message, self.unread, self.read)
        if refusal is None:
            return False
        assert self._parser is not None
        assert self._manager is not None
        self._messages.clear()
        self._parser.message_consumed()
        self._manager.requests_count += 1
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        transport.write(refusal)
        return True


def notice(request: web.BaseRequest, passage: Passage) -> float:
    """The turn of a request has come: learn from that, and return when its bytes came."""
    connection = cast("Connection", request.protocol)
    if connection.prompt:
        now = monotonic()
        passage.noticed(connection.unread, now - connection.read, now)
    return connection.read - connection.unread
