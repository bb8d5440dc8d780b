"""Requests that no batch is for: passed on and answered byte for byte, as they come."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from aiohttp import hdrs, web
from yarl import URL

from adaptive_batching.errors import UpstreamLost
from adaptive_batching.marshal.hop_by_hop import passed_on

_CHUNK = 2**16  # bytes; small answers of streaming servers are sent on as soon as they are here


class PassThrough:
    """Sends requests to a server and its answers back, in both directions while they come.

    Args:
        session: The client; see `workers.upstream.new_session`.
        server: The URL, without a path.
    """

    def __init__(self, session: aiohttp.ClientSession, server: URL) -> None:
        self._session = session
        self._server = server

    async def __call__(self, request: web.BaseRequest, read: bytes = b"") -> web.StreamResponse:
        """Answer one request.

        Args:
            request: As it came.
            read: What has been read of its body.

        Raises:
            UpstreamLost: The server can't be reached, or hung up before it answered.
        """
        url = URL(f"{self._server}{request.raw_path}", encoded=True)
        headers = passed_on(request.headers, also_dropped=[hdrs.EXPECT])
        body = _body(request, read) if read or request.can_read_body else None
        sending = self._session.request(
            request.method, url, headers=headers, data=body, allow_redirects=False
        )
        try:
            response = await sending
        except aiohttp.ClientError as error:
            msg = f"{self._server} did not answer: {type(error).__name__}: {error}"
            raise UpstreamLost(msg) from error
        async with response:
            return await _sent_back(response, request)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()


async def _body(request: web.BaseRequest, read: bytes) -> AsyncIterator[bytes]:
    if read:
        yield read
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue" and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    while chunk := await request.content.readany():
        yield chunk


async def _sent_back(
    response: aiohttp.ClientResponse, request: web.BaseRequest
) -> web.StreamResponse:
    """Send the answer on while it comes; if it breaks off, so does ours."""
    answer: Any = web.StreamResponse(
        status=response.status, reason=response.reason, headers=passed_on(response.headers)
    )
    await answer.prepare(request)
    try:
        async for chunk in response.content.iter_any():
            await answer.write(chunk)
    except aiohttp.ClientError as error:
        raise ConnectionResetError(f"the server's answer broke off: {error}") from error
    await answer.write_eof()
    return answer  # type: ignore[no-any-return]
