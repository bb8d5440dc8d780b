"""The routes at work, and which of them a path takes."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence

from adaptive_batching.dispatcher import Dispatcher, Observer
from adaptive_batching.instrumentation.live import LiveView
from adaptive_batching.instrumentation.live.watch import Watched
from adaptive_batching.instrumentation.prometheus import Metrics
from adaptive_batching.marshal.http.tracing import Tracer
from adaptive_batching.marshal.sidecar.route import Route
from adaptive_batching.marshal.sidecar.route_runtime import RouteRuntime
from adaptive_batching.marshal.sidecar.upstream.messages import Forwarded, Reply
from adaptive_batching.side_by_side import all_to_the_end, side_by_side


class RouteRuntimes:
    """Answers for each route.

    Args:
        routes: Of different names and prefixes.
        observers: Told about every batch and request of a route, by its name.
        metrics: Told of every runtime.
        live: Told as well.
        tracer: Makes spans, if anybody wants them.
        tenant_header: By which tenants are told apart; empty if they are not.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        observers: Mapping[str, Sequence[Observer]],
        metrics: Metrics,
        live: LiveView,
        tracer: Tracer | None = None,
        tenant_header: str = "",
    ) -> None:
        self._observers = observers
        self._metrics = metrics
        self._live = live
        self._tracer = tracer
        self._tenant_header = tenant_header
        self._runtimes = _in_order(self._made(route) for route in routes)
        self._retiring: dict[asyncio.Task[None], RouteRuntime] = {}
        for each in self._runtimes:
            self._watch(each)

    def __iter__(self) -> Iterator[RouteRuntime]:
        return iter(self._runtimes)

    @property
    def dispatchers(self) -> dict[str, Dispatcher[Forwarded, Reply]]:
        """What forms the batches of each route, by its name."""
        return {each.route.name: each.dispatcher for each in self._runtimes}

    def find(self, target: str) -> RouteRuntime | None:
        """The route that answers for a path and query: the one with the longest prefix."""
        first = self._runtimes[0]
        if first.route.prefix == "/":  # the only one, as for most
            return first
        path = target.partition("?")[0]
        return next((each for each in self._runtimes if each.route.covers(path)), None)

    async def start(self) -> None:
        """Be ready to answer."""
        await side_by_side(each.start() for each in self._runtimes)

    async def replace(self, routes: Sequence[Route]) -> None:
        """Let other routes take over; requests that are here end as they began.

        A route whose essence is the same goes on, and keeps what waits and what it has learned.

        Args:
            routes: Those from now on, each with an essence.

        Raises:
            WorkerStartError: One could not be started: all is as before.
        """
        there = {each.route.essence: each for each in self._runtimes}
        going_on = [(there[route.essence], route) for route in routes if route.essence in there]
        fresh = [self._made(route) for route in routes if route.essence not in there]
        try:
            await side_by_side(each.start() for each in fresh)
        except BaseException:
            await all_to_the_end(each.aclose(0.0) for each in fresh)
            raise
        for each, route in going_on:
            if route.source != each.route.source:
                each.retune(route)
        staying = [each for each, _ in going_on]
        gone = [each for each in self._runtimes if each not in staying]
        self._runtimes = _in_order([*staying, *fresh])
        for each in gone:
            self._metrics.forget(each.route.name)
            self._live.forget(each.route.name)
            self._retire(each)
        for each in fresh:
            self._watch(each)

    def flush(self) -> None:
        """From now on let what waits leave as soon as a server is free."""
        for each in self._runtimes:
            each.dispatcher.flush()

    async def aclose(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Answer what waits, for at most so many seconds, and close all connections."""
        retiring = dict(self._retiring)
        for task in retiring:
            task.cancel()
        await asyncio.gather(*retiring, return_exceptions=True)
        leaving = [*self._runtimes, *retiring.values()]
        await all_to_the_end(each.aclose(timeout) for each in leaving)

    def _made(self, route: Route) -> RouteRuntime:
        observers = self._observers.get(route.name, ())
        return RouteRuntime(route, observers, self._tracer, self._tenant_header)

    def _watch(self, runtime: RouteRuntime) -> None:
        name = runtime.route.name
        self._metrics.watch(name, runtime.dispatcher, runtime.histograms)
        observed = (runtime.histograms, runtime.latest, runtime.advice)
        self._live.watch(Watched(name, runtime.dispatcher, *observed))
        self._metrics.responses[name] = runtime.responses
        self._metrics.upstream_responses[name] = runtime.upstream_responses
        self._metrics.upstreams[name] = runtime.upstreams
        self._metrics.alone[name] = runtime.alone.counts

    def _retire(self, runtime: RouteRuntime) -> None:
        task = asyncio.create_task(runtime.retire())
        self._retiring[task] = runtime
        task.add_done_callback(self._retiring.pop)


def _in_order(runtimes: Iterable[RouteRuntime]) -> list[RouteRuntime]:
    return sorted(runtimes, key=lambda each: -len(each.route.prefix))
