"""aiohttp's server with the gaps closed that its defaults leave to the application."""

import asyncio
import resource
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp import http_parser, web
from aiohttp.typedefs import Handler

from adaptive_batching.errors import UsageError
from adaptive_batching.marshal.http.connection import Connection
from adaptive_batching.marshal.http.dropped_connections import DroppedConnections
from adaptive_batching.marshal.http.fast_connection import FastConnection
from adaptive_batching.marshal.http.fast_path import FastPath
from adaptive_batching.marshal.http.kernel_wait import KernelWait
from adaptive_batching.marshal.http.known_heads import KnownHeads
from adaptive_batching.marshal.http.refusals import Refusals

_CONNECTION: dict[str, Any] = {
    "keepalive_timeout": 15.0,  # also the time for all headers; aiohttp would wait an hour
    "lingering_time": 2.0,  # seconds to read on after an early refusal, so that it is received
    "read_bufsize": 2**17,  # bytes; half of what may lie unread before no more is taken
    "auto_decompress": False,  # compressed bodies are refused: no bomb is ever inflated
    "access_log": None,
}


class Server(web.Server):
    """Speaks HTTP and passes every request to one handler, which is cancelled if its client goes.

    Args:
        handler: Answers a request.
        most: Connections at a time; fewer if the process may not open as many files.
        fast_path: May answer requests without what aiohttp makes for each.

    Raises:
        UsageError: aiohttp runs without its C parser.

    Attributes:
        dropped: Those that were one too many.
    """

    def __init__(
        self, handler: Handler, most: int = sys.maxsize, fast_path: FastPath | None = None
    ) -> None:
        check_parser()
        super().__init__(handler, handler_cancellation=True)  # type: ignore[arg-type]

        self._kernel_wait = KernelWait()
        self._connection: Callable[..., Connection] = Connection
        if fast_path is not None:
            self._connection = partial(
                FastConnection,
                fast_path=fast_path,
                known_heads=KnownHeads(),
                refusals=Refusals(),
            )
        self._max_connections = min(most, max_connections())
        self.dropped = DroppedConnections(self._max_connections)

    def __call__(self) -> web.RequestHandler:
        """One more connection."""
        loop = asyncio.get_running_loop()
        return self._connection(self, loop=loop, kernel_wait=self._kernel_wait, **_CONNECTION)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Drop it if it is one too many: without file descriptors nobody could be served."""
        super().connection_made(handler, transport)
        if len(self._connections) > self._max_connections:
            transport.abort()
            self.dropped.enter()


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
