"""A service as an ASGI application: for uvicorn and its like, and to be mounted in FastAPI.

The ASGI server speaks HTTP here; what is asked of a request, and what it is answered, is as
before our own server (https://asgi.readthedocs.io/en/latest/specs/www.html).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from adaptive_batching.errors import NoWorkers
from adaptive_batching.marshal.admin.active_health_check import check_of_examples
from adaptive_batching.marshal.admin.health import check_ready, readiness
from adaptive_batching.marshal.admin.openapi.pages import Documents
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response
from adaptive_batching.marshal.service.endpoint_runtimes import EndpointRuntimes
from adaptive_batching.marshal.service.endpoints import PAGES
from adaptive_batching.marshal.service.mounted import ClientGone, answer
from adaptive_batching.marshal.service.router import ServiceRouter

_log = logging.getLogger("adaptive_batching")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class AsgiService:
    """The endpoints of a service, their documents, and `/healthz`, `/readyz` and `/metrics`.

    See `Service.__call__`.

    Args:
        runtimes: The endpoints, not yet started.
        documents: What describes them.
        max_in_flight: Requests at a time.
        body_timeout: Seconds that a body may take to arrive.
        drain_timeout: Seconds that the last requests have at the end.
    """

    def __init__(
        self,
        runtimes: EndpointRuntimes,
        documents: Documents,
        *,
        max_in_flight: int,
        body_timeout: float,
        drain_timeout: float,
    ) -> None:
        self.runtimes = runtimes
        self._documents = documents
        self._deep_check = check_of_examples(runtimes.by_path)
        self._router = ServiceRouter(
            runtimes.by_path,
            dict.fromkeys([*PAGES, *documents], _not_here),
            max_in_flight=max_in_flight,
            body_timeout=body_timeout,
        )
        self._drain_timeout = drain_timeout
        self._started = False
        runtimes.metrics.held_bytes = lambda: self._router.held.held

    def running_workers(self) -> AbstractAsyncContextManager[None]:
        """Have workers while the block runs.

        Raises:
            WorkerStartError: A worker could not load its handler.
        """
        self._started = True
        return self.runtimes.running(self._drain_timeout)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or live as long as the server; see the specification."""
        match scope["type"]:
            case "http":
                await self._respond(scope, receive, send)
            case "lifespan":
                await self._live(receive, send)
            case "websocket":
                await send({"type": "websocket.close"})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        phase = "startup"
        try:
            async with self.running_workers():
                await send({"type": "lifespan.startup.complete"})
                phase = "shutdown"
                await receive()
        except Exception as error:  # noqa: BLE001  the server says it, and ends
            await send({"type": f"lifespan.{phase}.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    async def _respond(self, scope: Message, receive: Receive, send: Send) -> None:
        path = _below(scope.get("root_path", ""), scope["path"])
        request = Request(
            scope["method"], path, scope["headers"], asyncio.get_running_loop().time()
        )
        try:
            if path in self.runtimes.by_path:
                self._check_started()
                response = await answer(
                    self._router, request, _body(receive), partial(_left, receive)
                )
            else:
                response = await self._page(request, scope)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            response = self._router.refusal(request, error)
        await _send(response, request, send)

    def _check_started(self) -> None:
        if not self._started:
            _log.error(
                "the workers of %s were never started: enter"
                " `async with service.running_workers():` in the lifespan of the application"
                " that it is mounted in",
                ", ".join(self.runtimes.by_path),
            )
            self._started = True  # said once; the endpoint knows that it has no workers
            raise NoWorkers("the workers were never started")

    async def _page(self, request: Request, scope: Message) -> Response:
        path = request.target
        document = self._documents.get(path)
        if document is None and path not in PAGES:
            raise Rejected(404, "not_found")
        if request.method not in {"GET", "HEAD"}:
            raise Rejected(405, "method_not_allowed", headers={"Allow": "GET, HEAD"})
        if document is not None:
            return document
        if path == "/metrics":
            body, kind = self.runtimes.metrics.exposition(request.headers.get("accept", ""))
            return Response(200, {"Content-Type": kind}, body)
        if path == "/readyz":
            query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
            check_ready(self.runtimes.dispatchers, draining=False)
            return await readiness(self._deep_check, deep=query.get("deep") == "1")
        return Response(200, {"Content-Type": "application/json"}, b'{"status": "ok"}')


async def _not_here(_request: Any) -> Any:
    """The server of the application shows pages, not aiohttp."""
    raise Rejected(404, "not_found")


def _below(root: str, path: str) -> str:
    """The specification has the root in the path as well; older servers had not."""
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def _left(receive: Receive) -> None:
    """Wait until the client has gone; all of its body has been received."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(response: Response, request: Request, send: Send) -> None:
    headers = {**response.headers, "Content-Length": str(len(response.body))}
    if request.id:  # pages have none
        headers["X-Request-Id"] = request.id
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": encoded})
    await send({"type": "http.response.body", "body": response.body})
