"""WebSockets: bytes in both directions, untouched.

Only after the server has agreed with 101: before that, what a client sends could be taken by it
for further requests. Wishes for other protocols are dropped, and answered in HTTP: in a tunnel of
h2c there would be requests that the sidecar does not see.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import hdrs, web
from aiohttp.connector import Connection
from aiohttp.http import StreamWriter

from adaptive_batching.marshal.http.request import WEBSOCKET
from adaptive_batching.marshal.http.server.passed import PassedRequest
from adaptive_batching.marshal.sidecar.proxy_headers import passed_on
from adaptive_batching.marshal.sidecar.proxy_response import WrittenResponse, write_head

_BUFFER = 2**16  # bytes in each direction


async def tunnel(
    request: web.BaseRequest,
    passed: PassedRequest,
    response: aiohttp.ClientResponse,
    patience: float,
) -> web.StreamResponse:
    """Pass on the server's 101, then all bytes of both sides.

    The end of what the client sends is passed on behind its last byte, and the server may still
    answer. The end of what the server sends ends the tunnel, once the client has taken all of it.

    Args:
        request: The client's; its connection ends with the tunnel.
        passed: The same as it was passed on.
        response: The server's.
        patience: Seconds in which something has to move once the client has hung up.
    """
    connection = response.connection
    assert connection is not None
    headers = passed_on(response.headers)
    headers[hdrs.CONNECTION] = "Upgrade"
    headers[hdrs.UPGRADE] = WEBSOCKET
    write_head(request, 101, response.reason or "", headers)
    with passed.switched_protocols() as from_client:
        try:
            await _Tunnel(passed, connection, from_client, request.writer).run(patience)
        finally:
            connection.close()
    return WrittenResponse(101, stays_open=False)


class _Tunnel:
    """Both directions at work.

    Args:
        passed: The client's request as it was passed on.
        connection: To the server.
        from_client: What the client sends.
        to_client: Writes to it.
    """

    def __init__(
        self,
        passed: PassedRequest,
        connection: Connection,
        from_client: asyncio.StreamReader,
        to_client: Any,
    ) -> None:
        loop, protocol = asyncio.get_running_loop(), connection.protocol
        assert protocol is not None
        from_server = _ServerBytes(protocol)
        protocol.set_parser(from_server, from_server.stream)
        self._passed = passed
        self._connection = connection
        self._chunks = 0  # that have been passed on, in both directions
        self._asking = loop.create_task(self._ask(from_client, StreamWriter(protocol, loop)))
        self._answering = loop.create_task(self._answer(from_server.stream, to_client))

    async def run(self, patience: float) -> None:
        """Return when both have ended, or nothing moves after the client has hung up."""
        both = under_way = {self._asking, self._answering}
        try:
            while under_way:
                before = self._chunks
                _, under_way = await asyncio.wait(under_way, timeout=patience)
                if self._chunks == before and self._passed.has_left():
                    break
        finally:
            for each in both:
                each.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _ask(self, from_client: asyncio.StreamReader, to_server: Any) -> None:
        await self._copy(lambda: from_client.read(_BUFFER), to_server)
        transport = self._connection.transport
        if transport is None or self._passed.is_closing() or not transport.can_write_eof():
            self._answering.cancel()
        else:
            transport.write_eof()

    async def _answer(self, from_server: aiohttp.StreamReader, to_client: Any) -> None:
        with suppress(ConnectionError):  # the client has gone: what it sent is still for the server
            await self._copy(from_server.readany, to_client)
            self._asking.cancel()

    async def _copy(self, read: Callable[[], Awaitable[bytes]], sink: Any) -> None:
        while chunk := await read():
            await sink.write(chunk)
            self._chunks += 1


class _ServerBytes:
    """Takes what comes from the server instead of a parser; stops it while nothing is read."""

    def __init__(self, protocol: Any) -> None:
        self.stream = aiohttp.StreamReader(protocol, _BUFFER, loop=asyncio.get_running_loop())

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.stream.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self.stream.feed_eof()
