"""A sidecar at work: its listener, its batches, and how it ends without losing a request."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from aiohttp import web
from yarl import URL

from adaptive_batching.dispatcher import NO_OBSERVERS, Dispatcher, Observer
from adaptive_batching.errors import BatchingError, ConfigError, Draining, NoWorkers
from adaptive_batching.instrumentation.live import LiveView
from adaptive_batching.instrumentation.prometheus import Metrics
from adaptive_batching.marshal.admin import health
from adaptive_batching.marshal.admin.active_health_check import ActiveHealthCheck, Looks
from adaptive_batching.marshal.admin.admin_pages import make_admin
from adaptive_batching.marshal.admin.dashboard.broadcast import Broadcast
from adaptive_batching.marshal.admin.reachability import (
    check_elsewhere,
    reachability,
    warn_of_unreachable,
)
from adaptive_batching.marshal.config.limits import DEFAULT_BOUNDS, Bounds
from adaptive_batching.marshal.config.routes_file import UNROUTED, RoutesFile
from adaptive_batching.marshal.http.limits import MemoryLimit
from adaptive_batching.marshal.http.response import as_aiohttp
from adaptive_batching.marshal.http.server import Server
from adaptive_batching.marshal.http.tracing import Tracer, traced
from adaptive_batching.marshal.sidecar.route import Route
from adaptive_batching.marshal.sidecar.routing import Relays
from adaptive_batching.marshal.sidecar.sidecar import Sidecar
from adaptive_batching.marshal.sidecar.tenant_limits import Tenants
from adaptive_batching.marshal.sidecar.upstream.messages import Forwarded, Reply

_log = logging.getLogger("adaptive_batching")


class SidecarRunning:
    """Stands before some model servers until it is stopped.

    Args:
        routes: Which requests go where, or a file that says so and may be written anew.
        bounds: What is not exceeded, whoever comes.
        admin: Host and port of the pages of operators; None for nowhere.
        observers: Told about every batch and request of a route, by its name.
        tracer: Makes spans of requests and batches: `instrumentation.tracing.Tracing`.

    Raises:
        ConfigError: The file says what can't be.
        ValueError: The bounds leave no room for a single request.

    Attributes:
        url: Where it listens, once it does.
        admin_url: Where operators look, if anywhere.
        metrics: What they see.
        live: What happened lately.
        broadcast: Tells those who watch.
        relays: The routes at work.
    """

    def __init__(
        self,
        routes: Sequence[Route] | RoutesFile,
        *,
        bounds: Bounds = DEFAULT_BOUNDS,
        admin: tuple[str, int] | None = None,
        observers: Mapping[str, Sequence[Observer]] = NO_OBSERVERS,
        tracer: Tracer | None = None,
    ) -> None:
        self.url = self.admin_url = ""
        self.metrics = Metrics()
        self.live = LiveView()
        self.broadcast = Broadcast(self.live)
        self._file = routes if isinstance(routes, RoutesFile) else None
        if isinstance(routes, RoutesFile):
            routes = routes.read()
        self._bounds = bounds
        held = MemoryLimit(bounds.check(routes).max_queue_bytes)
        self.metrics.held_bytes = lambda: held.held
        self.relays = Relays(
            routes, observers, self.metrics, self.live, tracer, bounds.tenant_header
        )
        tenants = Tenants(bounds.tenant_header, bounds.max_per_tenant)
        self._deep_check = ActiveHealthCheck(self._looks)
        self._sidecar = Sidecar(self.relays.find, bounds.max_in_flight, held, tenants)
        handler = traced(self._sidecar, tracer, self._route)
        self._server = Server(handler, bounds.max_connections)
        self.metrics.connections_dropped = lambda: self._server.dropped
        self._admin_address = admin
        self._admin = Server(make_admin(self))
        self._refreshing = asyncio.Lock()
        self.metrics.responses[UNROUTED] = self._sidecar.unrouted
        self._looking: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._started = False
        self._own: str | tuple[str, int] | None = None

    @property
    def dispatchers(self) -> dict[str, Dispatcher[Forwarded, Reply]]:
        """By the route's name; their `stats()` tell what happened."""
        return {each.route.name: each.dispatcher for each in self.relays}

    @property
    def draining(self) -> bool:
        """Whether clients are told to go elsewhere; what comes is answered all the same."""
        return self._sidecar.draining

    async def readiness(self, request: web.BaseRequest) -> web.Response:
        """What `/readyz` answers, and `/readyz?deep=1`, which connects to the servers.

        What becomes of the servers makes no difference to the former: they have probes of their
        own, and one that has no time is not to make others get what is sent here.

        Raises:
            Refused: No requests should be sent here.
        """
        if self.draining:
            raise Draining("no more requests should be sent here")
        if not all(each.ready for each in self.dispatchers.values()):
            raise NoWorkers("the addresses of the model servers are still looked up")
        deep = request.query.get("deep") == "1"
        return as_aiohttp(await health.readiness(self._deep_check, deep=deep))

    def announce_end(self) -> None:
        """Be not ready, and close each connection with its next answer."""
        self._sidecar.draining = True

    async def start(
        self,
        host: str,
        port: int,
        bound: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Listen, and be ready to pass on and to batch.

        Raises:
            ListenError: The port is taken, or the address is not ours.
            UsageError: It is that of one of the servers.
        """
        own = (host, port) if bound is None else bound.getsockname()
        self.check_elsewhere(own)
        self._started = True
        self.metrics.loop_lag.start()
        if self._admin_address is not None:
            self.admin_url = await self._admin.open(*self._admin_address)
            self.broadcast.start()
        await self.relays.start()
        servers = {
            (server, relay.route.tls) for relay in self.relays for server in relay.route.servers
        }
        self._looking = asyncio.create_task(warn_of_unreachable(servers))
        if self._file is not None:
            self._reading = asyncio.create_task(self._keep_reading(self._file))
        self.url = await self._server.open(host, port, bound, tls)
        self._own = own if isinstance(own, str) or own[1] else (host, URL(self.url).port or 0)

    def check_elsewhere(
        self, own: str | tuple[str, int] | None, routes: Iterable[Route] | None = None
    ) -> None:
        """See to it that no server is where clients or operators come to ourselves.

        Args:
            own: The host and port to listen on, or the path of a Unix socket; None if it isn't
                known.
            routes: Whose servers; None for those at work.

        Raises:
            UsageError: One is.
        """
        routes = [relay.route for relay in self.relays] if routes is None else routes
        servers = {server for route in routes for server in route.servers}
        if own is not None:
            check_elsewhere(servers, own)
        if self._admin_address is not None:
            host, port = self._admin_address
            check_elsewhere(servers, (host, port or URL(self.admin_url).port or 0), "--admin-port")

    async def refresh(self) -> None:
        """What SIGHUP and `POST /reload` do: read the routes again, if they are in a file.

        Raises:
            ConfigError: The file says what can't be: all is as before.
            UsageError: One of its servers is ourselves: all is as before.
            WorkerStartError: A route could not be started: all is as before.
        """
        if self._file is None:
            return
        async with self._refreshing:
            routes = self._file.read()
            try:
                self._bounds.check(routes)
            except ValueError as error:
                raise ConfigError(str(error)) from error
            self.check_elsewhere(self._own, routes)
            await self.relays.replace(routes)
            _log.info("routes are now %s", ", ".join(sorted(route.name for route in routes)))

    def _looks(self) -> Looks:
        routes = [each.route for each in self.relays]
        return {each.name: partial(reachability, each.servers, each.tls) for each in routes}

    def _route(self, target: str) -> str | None:
        relay = self.relays.find(target)
        return None if relay is None else relay.route.name

    async def _keep_reading(self, file: RoutesFile) -> None:
        while True:
            await file.written_anew()
            try:
                await self.refresh()
            except BatchingError as error:
                _log.error("%s", error)

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Listen no more, let batches leave at once, answer what comes.

        Args:
            timeout: Seconds after which what is left is refused.
        """
        self.announce_end()
        if not self._started:
            return
        for task in (self._looking, self._reading):
            if task is not None:
                task.cancel()
        deadline = time.monotonic() + timeout
        await self._server.shut()
        self.relays.flush()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._server.calm()
            await self.relays.aclose(max(0.0, deadline - time.monotonic()))
        finally:
            await self._server.aclose()
            self.broadcast.stop()
            await self._admin.aclose()
            self.metrics.loop_lag.stop()
