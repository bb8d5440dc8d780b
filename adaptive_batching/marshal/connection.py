"""One connection of a client, as aiohttp serves it, with the gaps closed that it leaves to us."""

import asyncio
import logging
import socket
import sys
from time import monotonic
from typing import Any, cast

from aiohttp import web

from adaptive_batching.marshal.rejections import Rejected, rejection
from adaptive_batching.marshal.request_ids import new_request_id

_log = logging.getLogger("adaptive_batching.marshal")

_LAST_RECEIVED = slice(52, 56)  # tcpi_last_data_recv in struct tcp_info, linux/tcp.h: milliseconds
_TICK = 4e-3  # seconds; by which that may be wrong, for the kernel counts in ticks


class Connection(web.RequestHandler):
    """Knows when its last request came, and answers what can't be parsed as every other error.

    aiohttp would echo the client's input.

    Attributes:
        came: When the last bytes came (monotonic seconds).
        prompt: Whether nothing was being answered then, so that they need not wait for that.
    """

    __slots__ = ("_socket", "came", "prompt")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._socket: Any = transport.get_extra_info("socket")
        self.came, self.prompt = monotonic(), True
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self.came, self.prompt = monotonic() - self._unread(), self._current_request is None
        super().data_received(data)

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

    def _unread(self) -> float:
        """Seconds for which what is read now has waited in the kernel, at the least."""
        try:
            info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_RECEIVED.stop)
        except (OSError, TypeError):  # a Unix socket; uvloop shows nothing of its sockets
            return 0.0
        waited = int.from_bytes(info[_LAST_RECEIVED], sys.byteorder) * 1e-3
        return max(0.0, waited - _TICK)


def connection_of(request: web.BaseRequest) -> Connection:
    """The connection that a request came on."""
    return cast("Connection", request.protocol)
