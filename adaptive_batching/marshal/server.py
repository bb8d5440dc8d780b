"""aiohttp's server with the gaps closed that its defaults leave to the application."""

import asyncio
import logging
import resource
import socket
import sys
from time import monotonic
from typing import Any

from aiohttp import http_parser, web
from aiohttp.typedefs import Handler

from adaptive_batching.errors import UsageError
from adaptive_batching.marshal.rejections import Rejected, rejection
from adaptive_batching.marshal.request_ids import new_request_id

_log = logging.getLogger("adaptive_batching.marshal")

_CONNECTION: dict[str, Any] = {
    "keepalive_timeout": 15.0,  # also the time for all headers; aiohttp would wait an hour
    "lingering_time": 2.0,  # seconds to read on after an early refusal, so that it is received
    "auto_decompress": False,  # compressed bodies are refused: no bomb is ever inflated
    "access_log": None,
}


class Server(web.Server):
    """Speaks HTTP and passes every request to one handler, which is cancelled if its client goes.

    Args:
        handler: Answers a request.
        most: Connections at a time; fewer if the process may not open as many files.

    Raises:
        UsageError: aiohttp runs without its C parser.
    """

    def __init__(self, handler: Handler, most: int = sys.maxsize) -> None:
        check_parser()
        super().__init__(handler, handler_cancellation=True)  # type: ignore[arg-type]

        self._max_connections = min(most, max_connections())

    def __call__(self) -> web.RequestHandler:
        """One more connection."""
        return Connection(self, loop=asyncio.get_running_loop(), **_CONNECTION)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Drop it if it is one too many: without file descriptors nobody could be served."""
        super().connection_made(handler, transport)
        if len(self._connections) > self._max_connections:
            transport.abort()


class Connection(web.RequestHandler):
    """Notes when requests come, and answers what can't be parsed as every other error.

    aiohttp would echo the client's input.

    Attributes:
        came: When the last bytes came (monotonic seconds).
    """

    __slots__ = ("_socket", "came")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        super().connection_made(transport)
        self._socket = transport.get_extra_info("socket")
        self.came = monotonic()

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self.came = monotonic() - unread(self._socket)
        super().data_received(data)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size:
            raise ConnectionError("the answer has begun already, and can't become an error")
        name = new_request_id()
        if status < 500:
            _log.debug("request %s can't be parsed: %r", name, message)
        else:
            _log.error("request %s failed", name, exc_info=exc)
        code = "malformed" if status < 500 else "internal"
        return rejection(Rejected(status, code, closes=True), name)


def unread(connection) -> float:
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 56)
    except Exception:
        return 0.0
    ms = int.from_bytes(info[52:56], sys.byteorder)
    return max(0.0, (ms - 4) * 1e-3)


def max_connections() -> int:
    """Three quarters of what the process may open; the rest is for workers, files and bursts."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else 3 * soft // 4


def check_parser() -> None:
    """See to it that requests are parsed by llhttp.

    Raises:
        UsageError: aiohttp runs without its C extension.
    """
    parser = getattr(http_parser, "HttpRequestParserC", None)
    if parser is None or parser is not http_parser.HttpRequestParser:
        msg = (
            "aiohttp runs on its Python parser, in which most request smuggling was found: install"
            " it with its C extension, and unset AIOHTTP_NO_EXTENSIONS"
        )
        raise UsageError(msg)
