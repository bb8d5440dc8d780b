"""One HTTP request as ASGI tells it, with our limits on what its client may send."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from multidict import CIMultiDict

from adaptive_batching.marshal.http.body import check_encoding, too_large
from adaptive_batching.marshal.http.error_responses import Rejected

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class ClientGone(Exception):
    """Nobody is left to answer to."""


class AsgiRequest:
    """What the server has told of a request, and what is still to come.

    Args:
        scope: Of type `http`.
        receive: Gives the next message.

    Attributes:
        method: In capitals.
        path: Below the place where the application is mounted.
        query: What follows the path, by name.
        headers: By name, whatever its case.
    """

    def __init__(self, scope: Message, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path = _below(scope.get("root_path", ""), scope["path"])
        self.query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        self.headers = CIMultiDict(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
        )
        self._receive = receive

    async def body(self, limit: int, patience: float) -> bytes:
        """All of the body.

        Args:
            limit: Bytes it may have.
            patience: Seconds it may take, all in all.

        Raises:
            Rejected: It is compressed, too large or took too long.
            ClientGone: It will never be whole.
        """
        check_encoding(",".join(self.headers.getall("content-encoding", ["identity"])))
        announced = self.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > limit:
            raise too_large()
        try:
            async with asyncio.timeout(patience):
                return await self._whole_body(limit)
        except TimeoutError:
            raise Rejected(408, "body_timeout", closes=True) from None

    async def unless_gone(self, answer: Awaitable[bytes]) -> bytes:
        """Wait for an answer; a client that leaves is not waited for, and leaves the queue.

        Raises:
            ClientGone: It left.
            Exception: Why there is no answer.
        """
        answering = asyncio.ensure_future(answer)
        leaving = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise ClientGone
            return await answering
        finally:
            answering.cancel()
            leaving.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    async def _whole_body(self, limit: int) -> bytes:
        body = bytearray()
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            if len(body) > limit:
                raise too_large()
            more = message.get("more_body", False)
        return bytes(body)


def _below(root: str, path: str) -> str:
    """The specification has the root in the path as well; older servers had not."""
    return path.removeprefix(root) if path.startswith(f"{root}/") else path
