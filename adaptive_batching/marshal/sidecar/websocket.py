"""WebSockets: bytes in both directions, untouched.

Only after the server has agreed with 101: before that, what a client sends could be taken by it
for further requests. Wishes for other protocols are dropped, and answered in HTTP: in a tunnel of
h2c there would be requests that the sidecar does not see.
"""

import asyncio
from collections.abc import Awaitable, Callable
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
    request: web.BaseRequest, passed: PassedRequest, response: aiohttp.ClientResponse
) -> web.StreamResponse:
    """Pass on the server's 101, then all bytes until one side has gone.

    Args:
        request: The client's; its connection ends with the tunnel.
        passed: The same as it was passed on.
        response: The server's.
    """
    connection = response.connection
    assert connection is not None
    assert connection.protocol is not None
    loop = asyncio.get_running_loop()
    headers = passed_on(response.headers)
    headers[hdrs.CONNECTION] = "Upgrade"
    headers[hdrs.UPGRADE] = WEBSOCKET
    write_head(request, 101, response.reason or "", headers)
    from_client, from_server = passed.switch_protocols(), _ServerBytes(connection.protocol)
    to_server: Any = StreamWriter(connection.protocol, loop)
    connection.protocol.set_parser(from_server, from_server.stream)
    both = [
        loop.create_task(_copy(lambda: from_client.read(_BUFFER), to_server)),
        loop.create_task(_copy(from_server.stream.readany, request.writer)),
    ]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in both:
            each.cancel()
        await asyncio.gather(*both, return_exceptions=True)
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


async def _copy(read: Callable[[], Awaitable[bytes]], sink: Any) -> None:
    while chunk := await read():
        await sink.write(chunk)
