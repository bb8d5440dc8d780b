"""All endpoints of a service at work: their runtimes, what is known of them, and their life."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from adaptive_batching.dispatcher import NO_OBSERVERS, Forming, Observer
from adaptive_batching.instrumentation.live import LiveView
from adaptive_batching.instrumentation.prometheus import Metrics
from adaptive_batching.marshal.service.endpoints import Endpoint, PipelineEndpoint
from adaptive_batching.marshal.service.runtimes.endpoint_runtime import EndpointRuntime
from adaptive_batching.marshal.service.runtimes.make_runtimes import make_runtimes
from adaptive_batching.side_by_side import all_to_the_end, side_by_side
from adaptive_batching.workers.interface import Restartable


class EndpointRuntimes:
    """The ways of the requests of some endpoints, whatever speaks HTTP before them.

    Args:
        endpoints: What is served.
        observers: Those of each label.
        at_work: The list in which these runtimes stand from their start to their end, so that the
            program that runs them can call them.

    Attributes:
        by_path: Each endpoint's.
        dispatchers: By path, or `/path:Stage`; their `stats()` tell what happened.
        metrics: What `/metrics` shows.
        live: What happened lately.
        loop: The event loop that they run on; None before their start.
    """

    def __init__(
        self,
        endpoints: Iterable[Endpoint | PipelineEndpoint],
        observers: Mapping[str, Sequence[Observer]] = NO_OBSERVERS,
        *,
        at_work: "list[EndpointRuntimes]",
    ) -> None:
        self.metrics = Metrics()
        self.live = LiveView()
        self.dispatchers: dict[str, Forming] = {}
        self.by_path: dict[str, EndpointRuntime] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self._at_work = at_work
        for runtime in make_runtimes(endpoints, observers):
            self._add(runtime)

    async def start(self) -> None:
        """Start the workers; returns when they are ready.

        Raises:
            WorkerStartError: A worker could not load its handler; none is left running.
        """
        self.loop = asyncio.get_running_loop()
        self._at_work.append(self)
        self.metrics.loop_lag.start()
        try:
            await side_by_side(each.backend.start() for each in self.by_path.values())
        except BaseException:
            await self.aclose(0.0)
            raise

    @property
    def wanted_workers(self) -> int:
        """Workers that this service starts itself."""
        return sum(each.workers.health.wanted or 0 for each in self._of_each_pool())

    async def restart_workers(self) -> None:
        """Renew the worker processes of all endpoints, one after the other; no request fails.

        Raises:
            WorkerStartError: One could not be started: the workers that are left go on.
            Draining: The service was stopped meanwhile.
        """
        for each in self._of_each_pool():
            if isinstance(each.workers, Restartable):
                await each.restart_workers()

    def _of_each_pool(self) -> Iterable[Forming]:
        """One dispatcher of each pool of workers, which several may share."""
        return {id(each.workers): each for each in self.dispatchers.values()}.values()

    def retune(self, endpoints: Iterable[Endpoint | PipelineEndpoint]) -> None:
        """Let other limits and policies hold, and other sizes of bodies; no request is dropped.

        Args:
            endpoints: The same as ever, but for these.
        """
        for endpoint in endpoints:
            runtime = self.by_path[endpoint.path]
            if isinstance(endpoint, Endpoint) and runtime.retune is not None:
                runtime.retune(endpoint.policy, endpoint.limits)
                runtime.max_latency, runtime.max_body = (
                    endpoint.limits.max_latency,
                    endpoint.max_body,
                )

    def flush(self) -> None:
        """From now on let what waits leave as soon as a worker is free."""
        for each in self.by_path.values():
            each.backend.flush()

    async def aclose(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Let what waits finish, for at most so many seconds, then stop the workers.

        An endpoint that fails at that leaves no other one running.
        """
        try:
            await all_to_the_end(each.backend.aclose(timeout) for each in self.by_path.values())
        finally:
            self.metrics.loop_lag.stop()
            if self in self._at_work:
                self._at_work.remove(self)

    @asynccontextmanager
    async def running(self, drain_timeout: float) -> AsyncIterator[None]:
        """Have workers while the block runs.

        Args:
            drain_timeout: Seconds that the last requests have at the end.

        Raises:
            WorkerStartError: A worker could not load its handler.
        """
        try:
            await self.start()
            yield
        finally:
            self.flush()
            await self.aclose(drain_timeout)

    def _add(self, runtime: EndpointRuntime) -> None:
        self.by_path[runtime.path] = runtime
        self.metrics.responses[runtime.path] = runtime.responses
        for each in runtime.watched:
            self.dispatchers[each.label] = each.dispatcher
            self.metrics.watch(each.label, each.dispatcher, each.histograms)
            self.live.watch(each)
