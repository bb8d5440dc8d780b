"""An answer that is passed on: its headers are the server's, in its order, and no others.

aiohttp's own responses would add `Server`, and a type where the server named none; so the head is
written to the connection itself, and what follows it by aiohttp's writer.
"""

from collections.abc import Callable

import aiohttp
from aiohttp import HttpVersion10, HttpVersion11, hdrs, web
from multidict import CIMultiDict

from adaptive_batching.errors import UpstreamBroken
from adaptive_batching.marshal.http.headers import bytes_of
from adaptive_batching.marshal.http.response import WITHOUT_BODY, date_now, is_one_line
from adaptive_batching.marshal.sidecar.proxy_headers import passed_on


class WrittenResponse(web.StreamResponse):
    """A response that has been written already, as aiohttp wants to see one.

    Args:
        status: Of HTTP.
        stays_open: Whether the connection can be used after it.
    """

    def __init__(self, status: int, *, stays_open: bool) -> None:
        super().__init__(status=status)
        self._stays_open = stays_open

    @property
    def keep_alive(self) -> bool:
        """Whether the connection can be used after it."""
        return self._stays_open

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send nothing more."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Send nothing more."""


async def send_back(
    response: aiohttp.ClientResponse,
    request: web.BaseRequest,
    moved: Callable[[], None],
    *,
    closes: bool,
) -> web.StreamResponse:
    """Send a server's answer on while it comes.

    Args:
        response: The server's.
        request: The client's.
        moved: Told that the client has taken some more.
        closes: Whether the connection ends with it.

    Raises:
        UpstreamBroken: A header of the server's is none.
        ConnectionResetError: The server's answer broke off, and so does ours.
    """
    headers, writer, version = passed_on(response.headers), request.writer, request.version
    closes = closes or not request.keep_alive
    if request.method != hdrs.METH_HEAD and response.status not in WITHOUT_BODY:
        if hdrs.CONTENT_LENGTH in headers:
            writer.length = int(headers[hdrs.CONTENT_LENGTH])
        elif version == HttpVersion11:
            writer.enable_chunking()
            headers[hdrs.TRANSFER_ENCODING] = "chunked"
        else:
            closes = True  # that it ends is all that HTTP/1.0 can say of where it ends
    if closes:
        headers[hdrs.CONNECTION] = "close"
    elif version == HttpVersion10:
        headers[hdrs.CONNECTION] = "keep-alive"
    headers.setdefault(hdrs.DATE, date_now())
    write_head(request, response.status, response.reason or "", headers)
    try:
        async for chunk in response.content.iter_any():
            await writer.write(chunk)
            moved()
    except aiohttp.ClientError as error:
        raise ConnectionResetError(f"the server's answer broke off: {error}") from error
    await writer.write_eof()
    return WrittenResponse(response.status, stays_open=not closes)


def write_head(
    request: web.BaseRequest, status: int, reason: str, headers: CIMultiDict[str]
) -> None:
    """Write the head of an answer at once: what follows may be long in coming.

    Raises:
        UpstreamBroken: A header of the server's is none.
        ConnectionResetError: The client has gone.
    """
    version = request.version
    lines = [f"HTTP/{version.major}.{version.minor} {status} {reason}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if not is_one_line("".join(lines)):
        raise UpstreamBroken(f"expected headers of one line each, got {lines!r}")
    if request.transport is None:
        raise ConnectionResetError("the client has gone")
    request.transport.write(bytes_of("\r\n".join([*lines, "", ""])))
