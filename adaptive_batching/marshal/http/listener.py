"""Where requests come in, and how that ends without losing one."""

import asyncio
import socket
import ssl
import sys

from aiohttp import web

from adaptive_batching.marshal.http.answering import Answering
from adaptive_batching.marshal.http.fast_path import FastPath
from adaptive_batching.marshal.http.listening import listen
from adaptive_batching.marshal.http.server import Server

_CALM = 0.1  # seconds without a request after which connections that are still open are idle
_LAST_WORDS = 1.0  # seconds to write the last answers to slow readers


class Listener:
    """Listens, and passes every request on.

    Args:
        answering: Whom to.
        max_connections: At a time; what comes then is dropped.
        fast_path: May answer requests without what aiohttp makes for each.
    """

    def __init__(
        self,
        answering: Answering,
        max_connections: int = sys.maxsize,
        fast_path: FastPath | None = None,
    ) -> None:
        self._fast_path = fast_path
        self._answering = answering
        self._max_connections = max_connections
        self._server: Server | None = None
        self._runner: web.ServerRunner | None = None

    @property
    def dropped(self) -> int:
        """Connections that were one too many."""
        return 0 if self._server is None else self._server.dropped.count

    async def open(
        self,
        host: str,
        port: int,
        bound: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> str:
        """Accept connections from now on, and return the URL; on a socket that is bound, if given.

        Raises:
            ListenError: The port is taken, or the address is not ours.
        """
        self._server = Server(self._answering, self._max_connections, self._fast_path)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=_LAST_WORDS)
        await self._runner.setup()
        return await listen(self._runner, host, port, bound, tls)

    async def shut(self) -> None:
        """Accept no more connections; requests still come on those that are open."""
        if self._runner is not None:
            for site in self._runner.sites:
                await site.stop()

    async def calm(self) -> None:
        """Wait until nothing is being answered and nothing more comes."""
        if self._server is None:
            return
        seen = -1
        while seen != self._server.requests_count:
            await self._answering.emptied()
            if not self._server.connections:
                return
            seen = self._server.requests_count
            await asyncio.sleep(_CALM)

    async def aclose(self) -> None:
        """Let the last answers be written, and close all connections."""
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await self._answering.emptied()
        except TimeoutError:
            pass  # slow readers don't get theirs
        finally:
            if self._runner is not None:
                await self._runner.cleanup()
