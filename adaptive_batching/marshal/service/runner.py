"""A service at work: its workers, its listener, and how it ends without losing a request."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from aiohttp import web

from adaptive_batching.dispatcher import NO_OBSERVERS, Observer
from adaptive_batching.errors import ConfigError
from adaptive_batching.marshal.admin import health as pages
from adaptive_batching.marshal.admin.active_health_check import check_of_examples
from adaptive_batching.marshal.admin.admin import Page
from adaptive_batching.marshal.admin.admin_pages import make_admin
from adaptive_batching.marshal.admin.dashboard.broadcast import Broadcast
from adaptive_batching.marshal.admin.openapi.pages import as_pages, make_documents
from adaptive_batching.marshal.config.endpoints_file import EndpointsFile
from adaptive_batching.marshal.http.response import as_aiohttp
from adaptive_batching.marshal.http.server import Server
from adaptive_batching.marshal.http.tracing import Tracer, traced, with_tracer
from adaptive_batching.marshal.service.endpoint_runtimes import EndpointRuntimes
from adaptive_batching.marshal.service.endpoints import Endpoint, PipelineEndpoint
from adaptive_batching.marshal.service.router import ServiceRouter

_log = logging.getLogger("adaptive_batching")


class Running:
    """Serves some endpoints until it is stopped.

    Args:
        endpoints: What is served.
        name: What it is called where it describes itself.
        max_in_flight: Requests at a time.
        body_timeout: Seconds that a body may take to arrive.
        documented: Whether it describes itself to clients.
        admin: Host and port of the pages of operators; None leaves them out, and `/metrics` where
            clients are.
        observers: Those of each path.
        tracer: Makes spans of requests and batches: `instrumentation.tracing.Tracing`.
        file: Says what else holds for the endpoints, and may be written anew.

    Raises:
        ConfigError: The file says what can't be.

    Attributes:
        documented: Whether it describes itself to clients.
        url: Where it listens, once it does.
        admin_url: Where operators look, if anywhere.
        endpoints: Those at work, by path.
        dispatchers: By path, or `/path:Stage`; their `stats()` tell what happened.
        metrics: What `/metrics` shows.
        live: What happened lately.
        broadcast: Tells those who watch.
    """

    def __init__(
        self,
        endpoints: Iterable[Endpoint | PipelineEndpoint],
        *,
        name: str = "service",
        max_in_flight: int,
        body_timeout: float,
        documented: bool = True,
        admin: tuple[str, int] | None = None,
        observers: Mapping[str, Sequence[Observer]] = NO_OBSERVERS,
        tracer: Tracer | None = None,
        file: EndpointsFile | None = None,
    ) -> None:
        self.url = self.admin_url = ""
        self._name, self._described, self._file = name, list(endpoints), file
        self._endpoints = self._described if file is None else file.applied(self._described)
        labels = [label for endpoint in self._endpoints for label in endpoint.labels]
        self._runtimes = EndpointRuntimes(self._endpoints, with_tracer(labels, observers, tracer))
        self.endpoints = self._runtimes.by_path
        self.dispatchers = self._runtimes.dispatchers
        self.metrics = self._runtimes.metrics
        self.live = self._runtimes.live
        self.broadcast = Broadcast(self.live)
        self._deep_check = check_of_examples(self.endpoints)
        self._admin_address, self.documented = admin, documented
        self._admin = Server(make_admin(self))
        self._refreshing = asyncio.Lock()
        self._router = router = ServiceRouter(
            self.endpoints, self._pages(), max_in_flight=max_in_flight, body_timeout=body_timeout
        )
        self._server = server = Server(traced(router, tracer, self._route))
        self.metrics.responses["other"] = router.unrouted
        self.metrics.held_bytes = lambda: router.held.held
        self.metrics.connections_dropped = lambda: server.dropped
        self._started = False
        self._reading: asyncio.Task[None] | None = None

    @property
    def draining(self) -> bool:
        """Whether clients are told to go elsewhere; what comes is answered all the same."""
        return self._router.draining

    async def readiness(self, request: web.BaseRequest) -> web.Response:
        """What `/readyz` answers, and `/readyz?deep=1`, which sends each endpoint its example.

        Raises:
            Refused: No requests should be sent here.
            CrashLoop: The workers of an endpoint die too often.
        """
        pages.check_ready(self.dispatchers, draining=self.draining)
        deep = request.query.get("deep") == "1"
        return as_aiohttp(await pages.readiness(self._deep_check, deep=deep))

    def announce_end(self) -> None:
        """Be not ready, and close each connection with its next answer."""
        self._router.draining = True

    async def start(
        self,
        host: str,
        port: int,
        bound: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Listen and start the workers; returns when they are ready.

        Models may take minutes to load. Until then `/healthz` says yes and `/readyz` no, and what
        is sent all the same is refused, so that its client can go elsewhere.

        Raises:
            WorkerStartError: A worker could not load its handler.
            ListenError: The port is taken, or the address is not ours.
        """
        self._started = True
        if self._admin_address is not None:
            self.admin_url = await self._admin.open(*self._admin_address)
            self.broadcast.start()
        self.url = await self._server.open(host, port, bound, tls)
        if self._file is not None:
            self._reading = asyncio.create_task(self._keep_reading(self._file))
        await self._runtimes.start()

    async def refresh(self) -> None:
        """What SIGHUP and `POST /reload` do: read the file again, if any, and restart the workers.

        Raises:
            ConfigError: The file says what can't be: all is as before.
            WorkerStartError: One could not be started: the workers that are left go on.
            Draining: The service was stopped meanwhile.
        """
        async with self._refreshing:
            if self._file is not None:
                self._retune(self._file)
            _log.info("restarting the workers")
            await self._runtimes.restart_workers()
            _log.info("the workers have been restarted")

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Listen no more, let batches leave at once, answer what comes, stop the workers.

        Every answer closes its connection. Requests that are under way on the others are let in:
        their clients could not know.

        Args:
            timeout: Seconds after which what is left is refused.
        """
        self.announce_end()
        if not self._started:
            return
        if self._reading is not None:
            self._reading.cancel()
        deadline = time.monotonic() + timeout
        await self._server.shut()
        self._runtimes.flush()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._server.calm()
            await self._runtimes.aclose(max(0.0, deadline - time.monotonic()))
        finally:
            await self._server.aclose()
            self.broadcast.stop()
            await self._admin.aclose()

    def _retune(self, file: EndpointsFile) -> None:
        """Let hold what a file says now; who waits, waits on."""
        self._runtimes.retune(file.applied(self._described))
        _log.info("limits and policies are as %s has them now", file.path)

    async def _keep_reading(self, file: EndpointsFile) -> None:
        while True:
            await file.written_anew()
            try:
                self._retune(file)
            except ConfigError as error:
                _log.error("%s", error)

    def _pages(self) -> dict[str, Page]:
        """What clients may look at beside the endpoints."""

        async def metrics(request: web.BaseRequest) -> web.Response:
            return pages.exposition(self.metrics, request)

        shown: dict[str, Page] = {"/healthz": pages.healthy, "/readyz": self.readiness}
        if self._admin_address is None:
            shown["/metrics"] = metrics
        if not self.documented:
            return shown
        return shown | as_pages(make_documents(self._name, self._endpoints, shown))

    def _route(self, target: str) -> str | None:
        endpoint = self._router.find(target)
        return None if endpoint is None else endpoint.path
