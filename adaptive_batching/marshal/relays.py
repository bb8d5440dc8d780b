"""The routes at work, and which of them a path takes."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence

from adaptive_batching.dispatcher import Observer
from adaptive_batching.instrumentation.prometheus import Metrics
from adaptive_batching.marshal.held_bytes import HeldBytes
from adaptive_batching.marshal.relay import Relay
from adaptive_batching.marshal.route import Route


class Relays:
    """Answers for each route.

    Args:
        routes: Of different names and prefixes.
        held: Counts the bytes of all requests that are kept.
        observers: Told about every batch and request of a route, by its name.
        metrics: Told of every relay.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        held: HeldBytes,
        observers: Mapping[str, Sequence[Observer]],
        metrics: Metrics,
    ) -> None:
        self._held = held
        self._observers = observers
        self._metrics = metrics
        self._relays = _in_order(self._made(route) for route in routes)

    def __iter__(self) -> Iterator[Relay]:
        return iter(self._relays)

    def find(self, target: str) -> Relay | None:
        """Who answers for a path and query: the route with the longest prefix."""
        first = self._relays[0]
        if first.route.prefix == "/":  # the only one, as for most
            return first
        path = target.partition("?")[0]
        return next((each for each in self._relays if each.route.covers(path)), None)

    async def start(self) -> None:
        """Be ready to answer."""
        await asyncio.gather(*(each.start() for each in self._relays))

    def flush(self) -> None:
        """From now on let what waits leave as soon as a server is free."""
        for each in self._relays:
            each.dispatcher.flush()

    async def aclose(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Answer what waits, for at most so many seconds, and close all connections."""
        await asyncio.gather(*(each.aclose(timeout) for each in self._relays))

    def _made(self, route: Route) -> Relay:
        relay = Relay(route, self._held, self._observers.get(route.name, ()))
        self._metrics.watch(route.name, relay.dispatcher, relay.histograms)
        self._metrics.responses[route.name] = relay.responses
        self._metrics.upstream_responses[route.name] = relay.upstream_responses
        return relay


def _in_order(relays: Iterable[Relay]) -> list[Relay]:
    return sorted(relays, key=lambda each: -len(each.route.prefix))
