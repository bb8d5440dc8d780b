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
from aiohttp.http import StreamWriter

from adaptive_batching.marshal.http.passed import PassedRequest
from adaptive_batching.marshal.http.request import WEBSOCKET
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
    assert connection.protocol is not None
    loop = asyncio.get_running_loop()
    headers = passed_on(response.headers)
    headers[hdrs.CONNECTION] = "Upgrade"
    headers[hdrs.UPGRADE] = WEBSOCKET
    write_head(request, 101, response.reason or "", headers)
    from_server = _ServerBytes(connection.protocol)
    to_server: Any = StreamWriter(connection.protocol, loop)
    connection.protocol.set_parser(from_server, from_server.stream)
    moved = 0

    async def copy(read: Callable[[], Awaitable[bytes]], sink: Any) -> None:
        nonlocal moved
        while chunk := await read():
            await sink.write(chunk)
            moved += 1

    async def ask() -> None:
        await copy(lambda: from_client.read(_BUFFER), to_server)
        transport = connection.transport
        if transport is None or passed.is_closing() or not transport.can_write_eof():
            answering.cancel()
        else:
            transport.write_eof()

    async def answer() -> None:
        with suppress(ConnectionError):  # the client has gone: what it sent is still for the server
            await copy(from_server.stream.readany, request.writer)
            asking.cancel()

    with passed.switched_protocols() as from_client:
        asking, answering = loop.create_task(ask()), loop.create_task(answer())
        under_way = {asking, answering}
        try:
            while under_way:
                before = moved
                _, under_way = await asyncio.wait(under_way, timeout=patience)
                if moved == before and passed.has_left():
                    break
        finally:
            for each in (asking, answering):
                each.cancel()
            await asyncio.gather(asking, answering, return_exceptions=True)
            connection.close()
    return WrittenResponse(101, stays_open=False)


class _ServerBytes:
    """Takes what comes from the server instead of a parser; stops it while nothing is read."""

    def __init__(self, protocol: Any) -> None:
        self.stream = aiohttp.StreamReader(protocol, _BUFFER, loop=asyncio.get_running_loop())

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.stream.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self.stream.feed_eof()
