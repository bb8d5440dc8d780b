"""A client that posts and reads answers, at a tenth of the cost of a full one.

At 4,000 requests a second a full client needs a core for itself, and what it measures is its own
queue.
"""

import asyncio
from typing import NamedTuple, Self, cast
from urllib.parse import urlsplit


class Response(NamedTuple):
    """The status and the body."""

    status: int
    body: bytes


class ClientConnection(asyncio.Protocol):
    """One connection, one request at a time; reads responses that say how long they are."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._received = bytearray()
        self._keeps = True

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect to the host of this URL.

        Raises:
            OSError: No server listens there.
        """
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, parts.hostname or "", parts.port or 80)
        return connection

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        open_ = self._transport is not None and not self._transport.is_closing()
        return open_ and self._keeps and self._answer is None

    def post(self, request: bytes) -> asyncio.Future[Response]:
        """Send the bytes of a request; the future is of its answer, or of ConnectionError."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._received += data
        end = self._received.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        head = bytes(self._received[: end - 2]).lower()
        if len(self._received) < end + _content_length(head):
            return
        response = Response(int(head[9:12]), bytes(self._received[end:]))  # HTTP/1.1 200 OK
        self._received.clear()
        self._keeps = b"\r\nconnection: close\r\n" not in head
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("closed before the answer"))


def _content_length(head: bytes) -> int:
    _, found, rest = head.partition(b"\r\ncontent-length:")
    if not found:
        raise ValueError("expected a response with a Content-Length, got one without")
    return int(rest.partition(b"\r")[0])
