"""Where connections come in, how many at a time, and how that ends without losing a request."""

import asyncio
import errno
import logging
import resource
import socket
import ssl
import sys
from contextlib import suppress

from aiohttp import http_parser, web

from adaptive_batching.errors import UsageError
from adaptive_batching.instrumentation.log_rate_limit import LogRateLimit
from adaptive_batching.marshal.http import limits
from adaptive_batching.marshal.http.handler import Handler
from adaptive_batching.marshal.http.server.connection import Connection
from adaptive_batching.marshal.http.server.passed import ending_with
from adaptive_batching.marshal.http.server.shedding import ReadLag, Refusals
from adaptive_batching.marshal.http.server.sockets import ListenError, bound_sockets, url_of
from adaptive_batching.units import format_duration

_log = logging.getLogger("adaptive_batching.marshal")

_BACKLOG = 1024  # a burst of new connections; the kernel cuts it to net.core.somaxconn
_CALM = 0.1  # seconds without a request after which connections that are still open are idle
_LAST_WORDS = 1.0  # seconds to write the last answers to slow readers
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BREATH = 1.0  # seconds until a connection is accepted again when no file was left; as asyncio does
_HEAD = limits.HEAD + limits.READ  # aiohttp refuses no head that we have let in


class Server:
    """Speaks HTTP for a handler.

    Args:
        handler: Answers the requests.
        max_connections: At a time; fewer if the process may not open as many files.

    Attributes:
        buffer: Where all connections read into, each until it has looked at what came.
        dropped: Connections that were one too many.
        read_lag: How long what is read has waited for that.
        refusals: When refused clients are looked at again.
        requests_count: Requests so far.
    """

    def __init__(self, handler: Handler, max_connections: int = sys.maxsize) -> None:
        self.handler = handler
        self.buffer = memoryview(bytearray(limits.BODY_READ))
        self.dropped = self.requests_count = 0
        self.read_lag, self.refusals = ReadLag(), Refusals()
        self._max_connections = max_connections
        self._connections: set[Connection] = set()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._gone = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._aiohttp: web.Server | None = None
        self._bursts: LogRateLimit[None] = LogRateLimit(_sum_up)

    async def open(
        self,
        host: str,
        port: int,
        bound: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> str:
        """Accept connections from now on, and return the URL.

        Args:
            host: The address.
            port: The port; 0 takes a free one.
            bound: A socket to listen on instead.
            tls: What clients are met with; None for plain HTTP.

        Raises:
            ListenError: The port is taken, or the address is not ours.
            UsageError: aiohttp runs without its C parser.
        """
        check_parser()
        self._max_connections = min(self._max_connections, max_connections())
        self._aiohttp = web.Server(
            ending_with(self.handler.pass_on),
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,  # no bomb is ever inflated
            lingering_time=0.0,  # the connection is ours
            max_line_size=_HEAD,
            max_field_size=_HEAD,
            max_headers=limits.HEADERS + 1,
        )
        listening = [bound] if bound is not None else bound_sockets(host, port)
        try:
            for each in listening:
                await self._listen(each, tls)
        except OSError as error:
            if bound is not None and bound.family is socket.AF_UNIX:
                raise
            raise ListenError(host, port, error) from error
        return url_of(listening[0], None if bound is not None else host, secure=tls is not None)

    async def _listen(self, bound: socket.socket, tls: ssl.SSLContext | None) -> None:
        bound.listen(_BACKLOG)  # uvloop says nothing if another one listens there by now
        loop = asyncio.get_running_loop()
        if tls is None:
            self._servers.append(
                await loop.create_server(lambda: Connection(self), sock=bound, backlog=_BACKLOG)
            )
        else:
            bound.settimeout(0.0)  # as the loop wants it
            self._accepting.append(loop.create_task(self._accept(bound, tls)))

    async def _accept(self, listening: socket.socket, tls: ssl.SSLContext) -> None:
        """Accept connections that begin with a handshake: it counts as a connection, and is short.

        asyncio's own server tells of a connection when the handshake is over.
        """
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    client, _ = await loop.sock_accept(listening)
                except OSError as error:
                    if error.errno in _OUT_OF_FILES:
                        _log.warning("no connection can be accepted: %s", error)
                        await asyncio.sleep(_BREATH)
                    continue
                if self._is_full():
                    self._drop()
                    client.close()
                else:
                    handshake = loop.create_task(self._shake_hands(client, tls))
                    self._handshakes.add(handshake)
                    handshake.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, client: socket.socket, tls: ssl.SSLContext) -> None:
        with suppress(OSError):  # which ssl.SSLError is, and TimeoutError: nothing can be answered
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Connection(self),
                client,
                ssl=tls,
                ssl_handshake_timeout=limits.HANDSHAKE,
            )

    def make_aiohttp_protocol(self) -> web.RequestHandler:
        """Aiohttp's protocol for a request that is passed on."""
        assert self._aiohttp is not None
        return self._aiohttp()

    def opened(self, connection: Connection, transport: asyncio.Transport) -> None:
        """Count a connection; drop it if it is one too many: without files none could be served."""
        is_counted = transport.get_extra_info("sslcontext") is not None  # since it was accepted
        is_full = not is_counted and self._is_full()
        self._connections.add(connection)
        self.read_lag.start()
        self._gone.clear()
        if is_full:
            transport.abort()
            self._drop()

    def closed(self, connection: Connection) -> None:
        """Count it no longer."""
        self._connections.discard(connection)
        if not self._connections:
            self._gone.set()
            self.read_lag.stop()

    def _is_full(self) -> bool:
        return len(self._connections) + len(self._handshakes) >= self._max_connections

    def _drop(self) -> None:
        self.dropped += 1
        if self._bursts.begins(None):
            line = "a connection was dropped: %d are open, a bound or the open files allow no more"
            _log.warning(line, self._max_connections)

    async def shut(self) -> None:
        """Accept no more connections; requests still come on those that are open."""
        for each in self._accepting:
            each.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for server in self._servers:
            server.close()

    async def calm(self) -> None:
        """Wait until nothing is being answered and nothing more comes."""
        seen = -1
        while seen != self.requests_count or any(each.is_answering for each in self._connections):
            await self.handler.emptied()
            if not self._connections:
                return
            seen = self.requests_count
            await asyncio.sleep(_CALM)

    async def aclose(self) -> None:
        """Let the last answers be written, and close all connections."""
        await self.shut()
        for handshake in self._handshakes:
            handshake.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self.handler.emptied()
        for connection in [*self._connections]:
            connection.close()
        with suppress(TimeoutError):  # slow readers don't get theirs
            async with asyncio.timeout(_LAST_WORDS):
                if self._connections:
                    await self._gone.wait()
        for connection in [*self._connections]:
            connection.abort()
        if self._aiohttp is not None:
            await self._aiohttp.shutdown(_LAST_WORDS)
        self._bursts.flush()


def max_connections() -> int:
    """Three quarters of what the process may open; the rest is for workers, files and bursts."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else 3 * soft // 4


def check_parser() -> None:
    """See to it that aiohttp parses with llhttp, servers' answers too.

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


def _sum_up(_: None, more: int, seconds: float) -> None:
    within = format_duration(seconds)
    _log.warning("%d more connections were dropped within %s", more, within, extra={"count": more})
