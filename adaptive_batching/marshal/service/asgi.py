"""A service as an ASGI application: for uvicorn and its like, and to be mounted in FastAPI.

Who speaks HTTP is somebody else here; what is asked of a request, and what it is answered, is as
before our own server (https://asgi.readthedocs.io/en/latest/specs/www.html).
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from time import monotonic

from adaptive_batching.dispatcher import request_name
from adaptive_batching.errors import DeadlineExceeded, NoWorkers
from adaptive_batching.marshal.admin.active_health_check import check_of_examples
from adaptive_batching.marshal.admin.health import check_ready, readiness
from adaptive_batching.marshal.admin.openapi.pages import Documents
from adaptive_batching.marshal.http.deadline import patience
from adaptive_batching.marshal.http.error_log import ErrorLog
from adaptive_batching.marshal.http.error_responses import PlainAnswer, Rejected
from adaptive_batching.marshal.http.request_ids import acceptable_id
from adaptive_batching.marshal.service.asgi_request import AsgiRequest, ClientGone, Message, Receive
from adaptive_batching.marshal.service.concurrency_limit import Door
from adaptive_batching.marshal.service.endpoint_runtime import Lane
from adaptive_batching.marshal.service.endpoint_runtimes import Lanes

_log = logging.getLogger("adaptive_batching")

_PAGES = frozenset({"/healthz", "/readyz", "/metrics"})

Send = Callable[[Message], Awaitable[None]]


class AsgiService:
    """The endpoints of a service, their documents, and `/healthz`, `/readyz` and `/metrics`.

    Its workers start and stop with it where it is what the server runs. Where it is mounted in an
    application whose framework does not tell mounted ones of its lifespan (Starlette and FastAPI
    don't), that application's lifespan has to: `async with mounted.running_workers():`.

    Args:
        lanes: The endpoints, not yet started.
        documents: What describes them.
        max_in_flight: Requests at a time.
        body_timeout: Seconds that a body may take to arrive.
        drain_timeout: Seconds that the last requests have at the end.
    """

    def __init__(
        self,
        lanes: Lanes,
        documents: Documents,
        *,
        max_in_flight: int,
        body_timeout: float,
        drain_timeout: float,
    ) -> None:
        self.lanes = lanes
        self._documents = documents
        self._deep_check = check_of_examples(lanes.by_path)
        self._door = Door(max_in_flight)
        self._body_timeout = body_timeout
        self._drain_timeout = drain_timeout
        self._errors = ErrorLog()
        self._started = False
        lanes.metrics.held_bytes = lambda: self._door.held_bytes

    def running_workers(self) -> AbstractAsyncContextManager[None]:
        """Have workers while the block runs: for the lifespan of who mounts it.

        Raises:
            WorkerStartError: A worker could not load its handler.
        """
        self._started = True
        return self.lanes.running(self._drain_timeout)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or live as long as the server; see the specification."""
        match scope["type"]:
            case "http":
                await self._respond(AsgiRequest(scope, receive), send)
            case "lifespan":
                await self._live(receive, send)
            case "websocket":
                await send({"type": "websocket.close"})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self.running_workers():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:  # noqa: BLE001  the server says it, and ends
            await send({"type": "lifespan.startup.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    async def _respond(self, request: AsgiRequest, send: Send) -> None:
        lane = self.lanes.by_path.get(request.path)
        name = acceptable_id(request.headers.get("x-request-id"))
        request_name.set(name)
        self._door.enter()
        try:
            if lane is None:
                answer = await self._page(request)
            else:
                answer = await self._answer(request, lane)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            page = request.path if request.path in _PAGES else "other"
            answer = self._errors.answer(error, name, page if lane is None else lane.path)
        finally:
            self._door.leave()
        if lane is not None:
            lane.responses[answer.status] += 1
        await _send(answer, name, send)

    async def _answer(self, request: AsgiRequest, lane: Lane) -> PlainAnswer:
        self._check_started()
        formats = self._door.check(request.method, request.headers, lane)
        began = monotonic()
        body = await request.body(lane.max_body, self._body_timeout)
        within = min(patience(request.headers), lane.max_latency) - (monotonic() - began)
        if within <= 0:
            raise DeadlineExceeded("its time was over when its body had arrived")
        answering = self._door.answer(lane, formats.item(body), len(body), within)
        return PlainAnswer(200, formats.headers, await request.unless_gone(answering))

    def _check_started(self) -> None:
        if not self._started:
            _log.error(
                "the workers of %s were never started: enter"
                " `async with mounted.running_workers():` in the lifespan of the application"
                " that it is mounted in",
                ", ".join(self.lanes.by_path),
            )
            self._started = True  # said once; the door knows that nobody is there
            raise NoWorkers("the workers were never started")

    async def _page(self, request: AsgiRequest) -> PlainAnswer:
        document = self._documents.get(request.path)
        if document is None and request.path not in _PAGES:
            raise Rejected(404, "not_found")
        if request.method not in {"GET", "HEAD"}:
            raise Rejected(405, "method_not_allowed", headers={"Allow": "GET, HEAD"})
        if document is not None:
            return document
        if request.path == "/metrics":
            body, kind = self.lanes.metrics.exposition(request.headers.get("accept", ""))
            return PlainAnswer(200, {"Content-Type": kind}, body)
        if request.path == "/readyz":
            deep = request.query.get("deep") == "1"
            check_ready(self.lanes.dispatchers, draining=False)
            return await readiness(self._deep_check, deep=deep)
        return PlainAnswer(200, {"Content-Type": "application/json"}, b'{"status": "ok"}')


async def _send(answer: PlainAnswer, name: str, send: Send) -> None:
    headers = {**answer.headers, "X-Request-Id": name, "Content-Length": str(len(answer.body))}
    encoded = [(key.lower().encode(), value.encode()) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
    await send({"type": "http.response.body", "body": answer.body})
