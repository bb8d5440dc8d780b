"""WebSockets: bytes in both directions, untouched.

Only after the server has agreed with 101: before that, what a client sends could be taken by it
for further requests. Wishes for other protocols are dropped, and answered in HTTP: aiohttp's parser
does not end with such a request, and in a tunnel of h2c there would be requests that nobody sees.
"""

import asyncio
from typing import Any

import aiohttp
from aiohttp import hdrs, web
from aiohttp.http import StreamWriter

from adaptive_batching.marshal.http.hop_by_hop import passed_on

WEBSOCKET = "websocket"
_BUFFER = 2**16  # bytes in each direction


def wants_tunnel(request: web.BaseRequest) -> bool:
    """Whether a client asks for a WebSocket, and nothing else."""
    named = ",".join(request.headers.getall(hdrs.CONNECTION, ())).lower().split(",")
    wanted = request.headers.getall(hdrs.UPGRADE, ())
    if not all(map(str.isascii, wanted)):  # some of what is not becomes it in lower case
        return False
    return "upgrade" in map(str.strip, named) and [*map(str.lower, wanted)] == [WEBSOCKET]


async def tunnel(request: web.BaseRequest, response: aiohttp.ClientResponse) -> web.StreamResponse:
    """Pass on the server's 101, then all bytes until one side has gone.

    Args:
        request: The client's; its connection ends with the tunnel.
        response: The server's.
    """
    connection, writer = response.connection, request.writer
    assert connection is not None
    assert connection.protocol is not None
    loop = asyncio.get_running_loop()
    from_client, from_server = _Bytes(request.protocol), _Bytes(connection.protocol)
    to_server: Any = StreamWriter(connection.protocol, loop)
    headers = passed_on(response.headers)
    headers[hdrs.CONNECTION] = "Upgrade"
    headers[hdrs.UPGRADE] = WEBSOCKET
    await writer.write_headers(f"HTTP/1.1 101 {response.reason}", headers)
    writer.send_headers()
    request.protocol.set_parser(from_client)  # type: ignore[arg-type]  # it only feeds it
    connection.protocol.set_parser(from_server, from_server.stream)
    both = [
        loop.create_task(_copy(from_client, to_server)),
        loop.create_task(_copy(from_server, writer)),
    ]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in both:
            each.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        connection.close()
    return _Ended()


class _Bytes:
    """Takes what comes on a connection instead of a parser; stops it while nobody reads."""

    def __init__(self, protocol: Any) -> None:
        self.stream = aiohttp.StreamReader(protocol, _BUFFER, loop=asyncio.get_running_loop())

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.stream.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self.stream.feed_eof()


async def _copy(source: _Bytes, sink: Any) -> None:
    while chunk := await source.stream.readany():
        await sink.write(chunk)


class _Ended(web.StreamResponse):
    """Everything was said already."""

    @property
    def keep_alive(self) -> bool:
        """No: what was agreed on was not HTTP."""
        return False

    async def prepare(self, request: web.BaseRequest) -> None:
        """Nothing is left to send."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send."""
