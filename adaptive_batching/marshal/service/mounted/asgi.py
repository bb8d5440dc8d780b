"""A service as an ASGI application: for uvicorn and its like, and to be mounted in FastAPI.

The ASGI server speaks HTTP here; what is asked of a request, and what it is answered, is as
before our own server (https://asgi.readthedocs.io/en/latest/specs/www.html).
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any
from urllib.parse import quote

from adaptive_batching.errors import NoWorkers
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response
from adaptive_batching.marshal.service.description import ServiceDescription
from adaptive_batching.marshal.service.mounted.answer import ClientGone, answer, show
from adaptive_batching.marshal.service.mounted.mounted_service import MountedService

_log = logging.getLogger("adaptive_batching")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class AsgiService:
    """The endpoints of a service, their documents, and `/healthz`, `/readyz` and `/metrics`.

    See `Service.__call__`.

    Args:
        description: What is served, within which limits.

    Raises:
        TypeError: Two declared types have one name.
    """

    def __init__(self, description: ServiceDescription) -> None:
        self._mounted = MountedService(description)
        self._paths = self._mounted.runtimes.by_path.keys()
        self._router = self._mounted.router
        self._started = False

    @asynccontextmanager
    async def running_workers(self) -> AsyncIterator[None]:
        """Have workers while the block runs.

        Raises:
            WorkerStartError: A worker could not load its handler.
        """
        self._started = True
        async with self._mounted.running_workers():
            yield

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
        target = f"{quote(path)}?{scope.get('query_string', b'').decode('latin-1')}"
        request = Request(scope["method"], target, scope["headers"], monotonic())
        try:
            if path in self._paths:
                self._check_started()
                response = await answer(
                    self._router, request, _body(receive), partial(_left, receive)
                )
            else:
                response = await show(self._router, request)
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
                ", ".join(self._paths),
            )
            self._started = True  # said once; the endpoint knows that it has no workers
            raise NoWorkers("the workers were never started")


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
