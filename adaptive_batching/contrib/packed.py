"""For a Python web application behind a sidecar with `--protocol packed`: lists of whole requests.

An ASGI middleware of nothing but the standard: it runs under any server, around any framework.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from hmac import compare_digest
from typing import Any, TypeAlias

from adaptive_batching.errors import BatchFunctionError
from adaptive_batching.wire.whole_requests import (
    MARK,
    NOT_ACCEPTED,
    PACKED_TYPE,
    Malformed,
    check_secret,
    pack,
    unpack_requests,
)
from adaptive_batching.wire.whole_requests import WholeRequest as Request
from adaptive_batching.wire.whole_requests import WholeResponse as Response

__all__ = ["PackedRequests", "Request", "Response"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Handler: TypeAlias = Callable[[list[Request]], Sequence[Response] | Awaitable[Sequence[Response]]]

_MARK = MARK.encode()
_MAX_BODY = 64 * 2**20


class PackedRequests:
    """Gives posted requests to handlers in lists; all else goes to the application within.

    A request that comes alone is a list of one. Packed ones are accepted from a Unix socket, and
    from a sender that knows the secret: one that can pack can speak in the name of any client.

    Args:
        app: The application.
        handlers: By path; each returns a response for each request, in order. A function that is
            not `async` runs in a thread.
        secret: What a sidecar that packs has to know; None if only a Unix socket is to be trusted.
        max_body: Bytes that a body may have; longer ones are refused (413).

    Raises:
        ValueError: The secret can't be said in a header, or is none.
        BatchFunctionError: A handler returned another number of responses.
    """

    def __init__(
        self,
        app: Application,
        handlers: MutableMapping[str, Handler],
        *,
        secret: str | None = None,
        max_body: int = _MAX_BODY,
    ) -> None:
        if secret is not None:
            check_secret(secret)
        self._app = app
        self._handlers = dict(handlers)
        self._secret = None if secret is None else secret.encode()
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a server."""
        handler = self._handlers.get(scope["path"]) if scope["type"] == "http" else None
        if handler is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        mark = dict(scope["headers"]).get(_MARK)
        if mark is not None and not self._is_trusted(scope, mark):
            await _say(send, Response(NOT_ACCEPTED, 403))
            return
        body = await _read(receive, self._max_body)
        if body is None:
            await _say(send, Response(b"the body is too large", 413))
            return
        await _say(send, await _answer(handler, scope, body, packed=mark is not None))

    def _is_trusted(self, scope: Scope, mark: bytes) -> bool:
        if self._secret is not None:
            return compare_digest(mark, self._secret)
        server = scope.get("server")
        return server is not None and server[1] is None  # as ASGI says of Unix sockets


async def _answer(handler: Handler, scope: Scope, body: bytes, *, packed: bool) -> Response:
    if not packed:
        (response,) = await _handled(handler, [_whole(scope, body)])
        return response
    try:
        requests = unpack_requests(body)
    except Malformed as error:
        return Response(f"expected packed requests: {error}".encode(), 400)
    responses = await _handled(handler, requests)
    return Response(pack(responses), headers=[(b"content-type", PACKED_TYPE.encode())])


async def _handled(handler: Handler, requests: list[Request]) -> Sequence[Response]:
    if inspect.iscoroutinefunction(handler):
        responses: Sequence[Response] = await handler(requests)
    else:
        responses = await asyncio.to_thread(handler, requests)  # type: ignore[arg-type]
    if len(responses) != len(requests):
        raise BatchFunctionError(f"expected {len(requests)} responses, got {len(responses)}")
    return responses


def _whole(scope: Scope, body: bytes) -> Request:
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope["query_string"].decode("latin-1")
    return Request(scope["method"], path.decode("latin-1"), query, list(scope["headers"]), body)


async def _read(receive: Receive, limit: int) -> bytes | None:
    """All of the body; None if it is too large, or its client has gone."""
    body = bytearray()
    while len(body) <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body) if len(body) <= limit else None
    return None


async def _say(send: Send, response: Response) -> None:
    headers = [*response.headers, (b"content-length", b"%d" % len(response.body))]
    start = {"type": "http.response.start", "status": response.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": response.body})
