"""A sidecar at work: its listener, its batches, and how it ends without losing a request."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from yarl import URL

from adaptive_batching.dispatcher import NO_OBSERVERS, Observer
from adaptive_batching.errors import ConfigError, Draining, NoWorkers
from adaptive_batching.instrumentation.live import LiveView
from adaptive_batching.instrumentation.prometheus import Metrics
from adaptive_batching.marshal.admin.active_health_check import ActiveHealthCheck, Looks
from adaptive_batching.marshal.admin.health import health_pages
from adaptive_batching.marshal.admin.operated import Operated
from adaptive_batching.marshal.admin.reachability import (
    check_elsewhere,
    reachability,
    warn_of_unreachable,
)
from adaptive_batching.marshal.config.limits import DEFAULT_BOUNDS, Bounds
from adaptive_batching.marshal.config.routes_file import RoutesFile
from adaptive_batching.marshal.http.limits import MemoryLimit
from adaptive_batching.marshal.http.tracing import Tracer
from adaptive_batching.marshal.sidecar.route import Route
from adaptive_batching.marshal.sidecar.routing import RouteRuntimes
from adaptive_batching.marshal.sidecar.sidecar import Sidecar
from adaptive_batching.marshal.sidecar.tenancy import Tenants

_log = logging.getLogger("adaptive_batching")


class SidecarRunning(Operated):
    """Stands before some model servers until it is stopped.

    Args:
        routes: Which requests go where, or a file that says so and may be written anew.
        bounds: What is not exceeded, whatever comes.
        admin: Host and port of the pages of operators; None for nowhere.
        observers: Told about every batch and request of a route, by its name.
        tracer: Makes spans of requests and batches: `instrumentation.tracing.Tracing`.

    Raises:
        ConfigError: The file says what can't be.
        ValueError: The bounds leave no room for a single request.

    Attributes:
        runtimes: The routes at work.
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
        metrics, live = Metrics(), LiveView()
        self._file = routes if isinstance(routes, RoutesFile) else None
        if isinstance(routes, RoutesFile):
            routes = routes.read()
        self._bounds = bounds
        held = MemoryLimit(bounds.check(routes).max_queue_bytes)
        self.runtimes = RouteRuntimes(
            routes, observers, metrics, live, tracer, bounds.tenant_header
        )
        tenants = Tenants(bounds.tenant_header, bounds.max_per_tenant)
        super().__init__(
            self.runtimes,
            metrics,
            live,
            Sidecar(self.runtimes.find, bounds.max_in_flight, held, tenants),
            health=health_pages(self._check_ready, ActiveHealthCheck(self._looks), metrics),
            admin=admin,
            tracer=tracer,
            max_connections=bounds.max_connections,
        )
        self._own: str | tuple[str, int] | None = None

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
        self.metrics.loop_lag.start()
        await self._begin()
        await self.runtimes.start()
        servers = {
            (server, runtime.route.tls)
            for runtime in self.runtimes
            for server in runtime.route.servers
        }
        self._tasks.append(asyncio.create_task(warn_of_unreachable(servers)))
        if self._file is not None:
            reading = self._keep_reading(self._file.written_anew, self.refresh)
            self._tasks.append(asyncio.create_task(reading))
        self.url = await self._server.open(host, port, bound, tls)
        self._own = own if isinstance(own, str) or own[1] else (host, URL(self.url).port or 0)

    def check_elsewhere(
        self, own: str | tuple[str, int] | None, routes: Iterable[Route] | None = None
    ) -> None:
        """See to it that no server is where clients or operators come to ourselves.

        Args:
            own: The host and port to listen on, or the path of a Unix socket; None if it isn't
                known.
            routes: Routes of the servers; None for those at work.

        Raises:
            UsageError: One is.
        """
        routes = [runtime.route for runtime in self.runtimes] if routes is None else routes
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
            await self.runtimes.replace(routes)
            _log.info("routes are now %s", ", ".join(sorted(route.name for route in routes)))

    def _looks(self) -> Looks:
        routes = [each.route for each in self.runtimes]
        return {each.name: partial(reachability, each.servers, each.tls) for each in routes}

    def _check_ready(self) -> None:
        """Let nothing depend on the servers: they have probes of their own.

        One that has no time is not to make others get what is sent here.

        Raises:
            Draining: The sidecar is about to end.
            NoWorkers: Addresses of servers are not known yet.
        """
        if self.draining:
            raise Draining("no more requests should be sent here")
        if not all(each.ready for each in self.runtimes.dispatchers.values()):
            raise NoWorkers("the addresses of the model servers are still looked up")
