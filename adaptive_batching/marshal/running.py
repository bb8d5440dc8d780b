"""A service at work: its workers, its listener, and how it ends without losing a request."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from aiohttp import web

from adaptive_batching.dispatcher import Dispatcher, Observer
from adaptive_batching.instrumentation.histograms import BatchHistograms
from adaptive_batching.instrumentation.prometheus import Metrics
from adaptive_batching.marshal import pages
from adaptive_batching.marshal.items import per_item
from adaptive_batching.marshal.marshal import Lane, Marshal
from adaptive_batching.marshal.server import Server
from adaptive_batching.workers.placement import make_workers

if TYPE_CHECKING:
    from adaptive_batching.marshal.service import Endpoint

NO_OBSERVERS: Mapping[str, Sequence[Observer]] = MappingProxyType({})

_BACKLOG = 1024  # a burst of new connections; the kernel cuts it to net.core.somaxconn
_LAST_WORDS = 1.0  # seconds to write the last answers to slow readers


class Running:
    """Serves some endpoints until it is stopped.

    Args:
        endpoints: What is served.
        max_in_flight: Requests at a time.
        body_timeout: Seconds that a body may take to arrive.
        observers: Those of each path.

    Attributes:
        url: Where it listens, once it does.
        dispatchers: By path; their `stats()` tell what happened.
        metrics: What `/metrics` shows.
    """

    def __init__(
        self,
        endpoints: "Iterable[Endpoint]",
        *,
        max_in_flight: int,
        body_timeout: float,
        observers: Mapping[str, Sequence[Observer]] = NO_OBSERVERS,
    ) -> None:
        self.url = ""
        self.metrics = Metrics()
        self.dispatchers: dict[str, Dispatcher[bytes, bytes]] = {}
        self._lanes: dict[str, Lane] = {}
        for endpoint in endpoints:
            self._add(endpoint, observers.get(endpoint.path, ()))
        self._marshal = Marshal(
            self._lanes,
            {
                "/healthz": pages.healthy,
                "/readyz": lambda _: pages.readiness(self.dispatchers, draining=self.draining),
                "/metrics": lambda request: pages.exposition(self.metrics, request),
            },
            max_in_flight=max_in_flight,
            body_timeout=body_timeout,
        )
        self.metrics.responses["other"] = self._marshal.unrouted
        self._runner: web.ServerRunner | None = None

    @property
    def draining(self) -> bool:
        """Whether clients are told to go elsewhere; what comes is answered all the same."""
        return self._marshal.draining

    def announce_end(self) -> None:
        """Be not ready, and close each connection with its next answer."""
        self._marshal.draining = True

    async def start(self, host: str, port: int) -> None:
        """Listen and start the workers; returns when they are ready.

        Models may take minutes to load. Until then `/healthz` says yes and `/readyz` no, and what
        is sent all the same waits in the queue.

        Raises:
            WorkerStartError: A worker could not load its handler.
            OSError: The port is taken.
        """
        self._runner = web.ServerRunner(Server(self._marshal), shutdown_timeout=_LAST_WORDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=_BACKLOG)
        await site.start()
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{site.port}"
        await asyncio.gather(*(each.start() for each in self.dispatchers.values()))

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Listen no more, let batches leave at once, answer what is left, stop the workers.

        Args:
            timeout: Seconds after which what is left is refused.
        """
        self.announce_end()
        if self._runner is None:
            return
        for site in self._runner.sites:
            await site.stop()
        try:
            await asyncio.gather(*(each.aclose(timeout) for each in self.dispatchers.values()))
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS):
                    await self._marshal.emptied()
        finally:
            await self._runner.cleanup()

    def _add(self, endpoint: "Endpoint", observers: Sequence[Observer]) -> None:
        histograms = BatchHistograms(endpoint.limits.max_batch_size)
        workers = make_workers(endpoint.handler, endpoint.placement, wrap=per_item)
        dispatcher: Dispatcher[bytes, bytes] = Dispatcher(
            workers, endpoint.limits, policy=endpoint.policy, observers=[histograms, *observers]
        )
        lane = Lane(dispatcher.submit, endpoint.max_body)
        self.dispatchers[endpoint.path] = dispatcher
        self._lanes[endpoint.path] = lane
        self.metrics.watch(endpoint.path, dispatcher, histograms)
        self.metrics.responses[endpoint.path] = lane.responses
