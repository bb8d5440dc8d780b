"""A request that is passed on to aiohttp, by the public face of its server.

aiohttp serves streams, WebSockets, pages and mounts well, but what it gets wrong about where one
request ends and the next begins (trailers, upgrades that are declined) could mix two clients up
that share a connection through a proxy. So it sees one request at a time, on a protocol of its own,
with a head written anew from what llhttp has understood, and it never sees the connection.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from aiohttp import web

from adaptive_batching.marshal.http.headers import bytes_of
from adaptive_batching.marshal.http.request import Request

_LAST_CHUNK = b"0\r\n\r\n"


class Origin(Protocol):
    """The connection that a passed request came on."""

    @property
    def draining(self) -> bool:
        """Whether it ends with its next answer."""
        ...

    def pause_body(self) -> None:
        """Read no more of the body for now."""
        ...

    def resume_body(self) -> None:
        """Read on."""
        ...

    def open_tunnel(self, reader: asyncio.StreamReader) -> None:
        """Give all bytes from now on to a reader."""
        ...

    def has_left(self) -> bool:
        """Whether the client has hung up behind bytes that have not been read."""
        ...

    def answered(self, *, keeps_alive: bool) -> None:
        """The answer has been written."""
        ...


class PassedRequest(asyncio.Transport):
    """What aiohttp takes for the connection of one request.

    Args:
        origin: The connection that the request came on.
        transport: Its transport.
        request: The request; its body may still be arriving.
        protocol: aiohttp's, fresh.

    Attributes:
        asks_for_tunnel: Whether another protocol is to be spoken after it, which may be granted.
    """

    def __init__(
        self,
        origin: Origin,
        transport: asyncio.Transport,
        request: Request,
        protocol: web.RequestHandler,
    ) -> None:
        super().__init__()
        self._origin = origin
        self._transport = transport
        self._protocol = protocol
        self._is_chunked = request.length is None
        self._is_live, self._is_broken, self._is_tunnel = True, False, False
        self._seen: web.BaseRequest | None = None
        self.asks_for_tunnel = request.asks_for_tunnel
        protocol.connection_made(self)
        protocol.data_received(head_written_anew(request, without="expect" if request.size else ""))
        for piece in request.pieces:
            self.feed(bytes(piece))
        request.pieces = []
        if request.is_whole:
            self.feed_end()

    @property
    def closes(self) -> bool:
        """Whether the connection ends with an answer that begins now."""
        return self._origin.draining

    def feed(self, piece: bytes) -> None:
        """Pass on more of the body."""
        if self._is_live and piece:
            framed = b"%x\r\n%b\r\n" % (len(piece), piece) if self._is_chunked else piece
            self._protocol.data_received(framed)

    def feed_end(self) -> None:
        """The body has ended."""
        if self._is_live and self._is_chunked:
            self._protocol.data_received(_LAST_CHUNK)

    def feed_error(self) -> None:
        """The rest of the body can't be read: its reader gets an error."""
        self._is_broken = True
        if self._seen is not None:
            self._seen.content.set_exception(web.RequestPayloadError("no chunk"))

    def seen(self, request: web.BaseRequest) -> None:
        """Aiohttp has understood the head."""
        self._seen = request
        if self._is_broken:
            self.feed_error()

    def pause_writing(self) -> None:
        """The client reads its answer too slowly."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """The client has read enough."""
        self._protocol.resume_writing()

    def leave(self, error: Exception | None = None) -> None:
        """End: the client has gone, or has its answer; a tunnel ends by itself."""
        self._is_live = False
        if not self._is_tunnel:
            self._protocol.connection_lost(error)

    def finish(self, *, keeps_alive: bool) -> None:
        """The answer has been written: let the next request have the connection.

        aiohttp's task is still busy with this one; it ends with the next turn of the loop.
        """
        if self._is_live:
            self._is_live = False
            asyncio.get_running_loop().call_soon(self.leave)
            self._origin.answered(keeps_alive=keeps_alive)

    @contextmanager
    def switched_protocols(self) -> Iterator[asyncio.StreamReader]:
        """Read bytes instead of requests from now on; the connection ends with this.

        A client that hangs up meanwhile cancels nothing: what it has sent can be read to its end.
        """
        reader = asyncio.StreamReader()
        reader.set_transport(self)
        self._origin.open_tunnel(reader)
        self._is_tunnel = True
        try:
            yield reader
        finally:
            self._is_tunnel = False
            if not self._is_live:
                asyncio.get_running_loop().call_soon(self.leave)

    def has_left(self) -> bool:
        """Whether the client has hung up, be it behind bytes that have not been read."""
        return not self._is_live or self._origin.has_left()

    # ---------------------------------------------------------------- as aiohttp sees a connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the transport of the connection knows; see `asyncio.BaseTransport`."""
        return self._transport.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write to the client."""
        if self._is_live:
            self._transport.write(data)

    def writelines(self, list_of_data: Any) -> None:
        """Write to the client."""
        if self._is_live:
            self._transport.writelines(list_of_data)

    def get_write_buffer_size(self) -> int:
        """Bytes that the client has not read."""
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When to call `pause_writing`."""
        self._transport.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Read no more of the body for now."""
        if self._is_live:
            self._origin.pause_body()

    def resume_reading(self) -> None:
        """Read on."""
        if self._is_live:
            self._origin.resume_body()

    def is_closing(self) -> bool:
        """Whether nothing can be written any more."""
        return not self._is_live or self._transport.is_closing()

    def close(self) -> None:
        """End the connection: aiohttp has answered by itself, or its answer broke off."""
        if self._is_live:
            self.finish(keeps_alive=False)

    def abort(self) -> None:
        """End the connection at once, in the middle of an answer."""
        self._transport.abort()


def head_written_anew(request: Request, *, without: str = "") -> bytes:
    """The head of a request, in its order and spelling.

    Args:
        request: The request.
        without: A header to leave out, in lower case.
    """
    version = "1.0" if request.is_http_1_0 else "1.1"
    lines = [bytes_of(f"{request.method} {request.target} HTTP/{version}")]
    lines += [
        name + b": " + value
        for name, value in request.headers.pairs
        if not without or name.lower() != without.encode()
    ]
    return b"\r\n".join([*lines, b"", b""])


def ending_with(
    pass_on: Callable[[web.BaseRequest], Any],
) -> Callable[[web.BaseRequest], Any]:
    """A handler for aiohttp that writes its answer to the end and then ends the passed request."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        passed = request.transport
        assert isinstance(passed, PassedRequest)
        passed.seen(request)
        try:
            response: web.StreamResponse = await pass_on(request)
        except ConnectionError as error:
            if passed.is_closing():  # the client has gone, which is no error
                raise asyncio.CancelledError from error
            passed.abort()  # so that the client does not take it for a whole answer
            raise
        try:
            await response.prepare(request)
            await response.write_eof()
        except ConnectionError:  # the client has gone, which is no error
            passed.abort()
        else:
            passed.finish(keeps_alive=bool(response.keep_alive))
        return response

    return handle
