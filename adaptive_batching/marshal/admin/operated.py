"""A service or a sidecar at work: where clients and operators come, and how it ends."""

import asyncio
import logging
import sys
import time
from abc import ABC
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from adaptive_batching.dispatcher import Forming
from adaptive_batching.errors import BatchingError
from adaptive_batching.instrumentation.live import LiveView
from adaptive_batching.instrumentation.prometheus import Metrics
from adaptive_batching.marshal.admin.admin_pages import make_admin
from adaptive_batching.marshal.admin.dashboard.broadcast import Broadcast
from adaptive_batching.marshal.admin.page import Page
from adaptive_batching.marshal.http.router import UNROUTED, Router
from adaptive_batching.marshal.http.run import Program
from adaptive_batching.marshal.http.server.server import Server
from adaptive_batching.marshal.http.tracing import Tracer, traced

_log = logging.getLogger("adaptive_batching")


class Batching(Protocol):
    """The endpoints of a service, or the routes of a sidecar."""

    @property
    def dispatchers(self) -> Mapping[str, Forming]:
        """What forms their batches, by label."""
        ...

    def flush(self) -> None:
        """From now on let what waits leave as soon as a worker is free."""
        ...

    async def aclose(self, timeout: float, /) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Let what waits finish, for at most so many seconds, and close."""
        ...


class Operated(Program, ABC):
    """Answers clients on one port, and operators on another, until it is stopped.

    Args:
        batching: The endpoints of a service, or the routes of a sidecar.
        metrics: What operators see.
        live: What happened lately.
        router: Answers clients.
        health: What orchestrators and Prometheus look at, by path.
        admin: Host and port of the pages of operators; None for nowhere.
        tracer: Makes spans of requests.
        max_connections: Of clients at a time.

    Attributes:
        url: For clients; empty before `start`.
        admin_url: Of the pages of operators; empty without `admin`.
        metrics: As it was given.
        live: As it was given.
        health: As it was given.
        broadcast: Tells the viewers of the dashboard.
    """

    def __init__(
        self,
        batching: Batching,
        metrics: Metrics,
        live: LiveView,
        router: Router[Any],
        *,
        health: Mapping[str, Page],
        admin: tuple[str, int] | None,
        tracer: Tracer | None,
        max_connections: int = sys.maxsize,
    ) -> None:
        self.url = self.admin_url = ""
        self.metrics, self.live = metrics, live
        self.broadcast = Broadcast(live)
        self.health = health
        self._batching, self._router = batching, router
        self._server = server = Server(traced(router, tracer, self._label), max_connections)
        self._admin_address = admin
        self._admin = Server(make_admin(self))
        self._refreshing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._started = False
        metrics.responses[UNROUTED] = router.unrouted
        metrics.held_bytes = lambda: router.held.held
        metrics.connections_dropped = lambda: server.dropped

    @property
    def dispatchers(self) -> Mapping[str, Forming]:
        """By the name in metrics; their `stats()` tell what happened."""
        return self._batching.dispatchers

    @property
    def draining(self) -> bool:
        """Whether clients are told to go elsewhere; what comes is answered all the same."""
        return self._router.draining

    def announce_end(self) -> None:
        """Be not ready, and close each connection with its next answer."""
        self._router.draining = True

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Listen no more, let batches leave at once, answer what comes, end what forms batches.

        Every answer closes its connection. Requests that are under way on the others are let in:
        their clients could not know.

        Args:
            timeout: Seconds after which what is left is refused.
        """
        self.announce_end()
        if not self._started:
            return
        for task in self._tasks:
            task.cancel()
        deadline = time.monotonic() + timeout
        await self._server.shut()
        self._batching.flush()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._server.calm()
            await self._batching.aclose(max(0.0, deadline - time.monotonic()))
        finally:
            await self._server.aclose()
            self._router.errors.flush()
            self.broadcast.stop()
            await self._admin.aclose()
            self.metrics.loop_lag.stop()

    async def _begin(self) -> None:
        """Be stopped from now on, and let operators look."""
        self._started = True
        if self._admin_address is not None:
            self.admin_url = await self._admin.open(*self._admin_address)
            self.broadcast.start()

    async def _keep_reading(
        self, written_anew: Callable[[], Awaitable[None]], read: Callable[[], Awaitable[None]]
    ) -> None:
        """Read a file each time that it has been written; what can't be leaves all as it was."""
        while True:
            await written_anew()
            try:
                await read()
            except BatchingError as error:
                _log.error("%s", error)

    def _label(self, target: str) -> str | None:
        destination = self._router.find(target)
        return None if destination is None else destination.label
