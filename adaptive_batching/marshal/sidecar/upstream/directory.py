"""Which servers there are, which places of theirs are alive, and which server has what place."""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from math import inf
from time import monotonic

from adaptive_batching.errors import UpstreamUnreachable
from adaptive_batching.marshal.sidecar.upstream.addresses import Address, Location
from adaptive_batching.marshal.sidecar.upstream.outlier_detection import OutlierDetection, State
from adaptive_batching.units import format_duration
from adaptive_batching.workers.interface import Health

_RESOLVED_EVERY = 5.0  # seconds; Envoy's default
_SOONEST = 0.001  # seconds; timers are no finer
_log = logging.getLogger("adaptive_batching.upstream")


class Directory:
    """The servers at some locations.

    A server has `concurrency` places, which are workers to a dispatcher. The places of a server
    that has gone pass to the next one that comes. As long as no name has had an address, as those
    of Kubernetes have none without a ready pod, each stands for a server that can't be reached.

    Args:
        locations: Where they are; names are looked up again every few seconds.
        outliers: How they have done.
        concurrency: Places of each.
    """

    def __init__(
        self,
        locations: Sequence[Location],
        outliers: OutlierDetection,
        concurrency: int,
    ) -> None:
        self._locations = tuple(locations)
        self._outliers = outliers
        self._concurrency = concurrency
        self._found: dict[Location, list[Address]] = {}
        self._missed: set[Location] = set()  # when they were looked up last
        self._places: dict[int, Address] = {}
        self._busy: set[int] = set()
        self._living: frozenset[int] = frozenset()
        self._turn = count()
        self._timer: asyncio.TimerHandle | None = None
        self._resolving: asyncio.Task[None] | None = None
        self._on_change: Callable[[], None] = lambda: None

    @property
    def names(self) -> list[str]:
        """The locations as they were given."""
        return [str(location) for location in self._locations]

    @property
    def health(self) -> Health:
        """The places that are alive, and the server of each."""
        if not self._found:
            return Health(frozenset(), self._concurrency)
        identities: dict[int, Hashable] = {
            index: address.name for index, address in self._places.items()
        }
        return Health(
            self._living,
            len(self._servers) * self._concurrency,
            identities=identities,
            back_at=-inf if self._living else self._outliers.next_change(monotonic()),
        )

    async def start(self, on_change: Callable[[], None]) -> None:
        """Look for the servers, and go on looking."""
        self._on_change = on_change
        await self._resolve(since=-inf)
        if any(location.changes for location in self._locations):
            self._resolving = asyncio.create_task(self._keep_resolving())

    async def aclose(self) -> None:
        """Look no more."""
        self._on_change = lambda: None
        if self._timer is not None:
            self._timer.cancel()
        resolving, self._resolving = self._resolving, None
        if resolving is not None and resolving.get_loop() is asyncio.get_running_loop():
            resolving.cancel()
            await asyncio.gather(resolving, return_exceptions=True)

    # ---------------------------------------------------------------------------- which gets what

    @contextmanager
    def place(self, index: int) -> Iterator[Address]:
        """The server of a place, which does not change meanwhile.

        Raises:
            UpstreamUnreachable: Its name has no address.
        """
        self._busy.add(index)
        try:
            yield _somewhere(self._places[index])
        finally:
            self._busy.discard(index)

    def next(self) -> Address:
        """Each of those that get batches in turn; any if none does.

        Raises:
            UpstreamUnreachable: Its name has no address.
        """
        now = monotonic()
        servers = list(self._servers.values())
        able = [each for each in servers if self._outliers.permits(each.name, now)] or servers
        return _somewhere(able[next(self._turn) % len(able)])

    def states(self) -> dict[str, State]:
        """What becomes of each server."""
        now = monotonic()
        return {name: self._outliers.state(name, now) for name in self._servers}

    # -------------------------------------------------------------------------- what has happened

    def succeeded(self, address: Address) -> None:
        """A server has answered."""
        known = address.name in self._outliers
        if known and self._outliers.succeeded(address.name, monotonic()):
            _log.info("%s answers again", address.name)
            self._settle()

    def failed(self, address: Address) -> None:
        """A server could not be reached, hung up, took too long, or is broken."""
        if address.name in self._outliers:
            with self._reporting(address, "failed too often"):
                self._outliers.failed(address.name, monotonic())

    def erred(self, address: Address) -> None:
        """A server has answered with an error that may be an item's fault."""
        if address.name in self._outliers:
            with self._reporting(address, "answers with errors, others don't"):
                self._outliers.erred(address.name, monotonic())

    def exhausted(self, address: Address, *, alone: bool) -> None:
        """A server's memory was too small for a batch, or for a request alone."""
        if address.name in self._outliers:
            with self._reporting(address, "has no memory for single requests, others do"):
                self._outliers.exhausted(address.name, monotonic(), alone=alone)

    def shared_out(self, address: Address, key: Hashable) -> None:
        """A server's answer to a batch of that key held one result for each item."""
        if address.name in self._outliers:
            self._outliers.shared_out(address.name, key)

    def garbled(self, address: Address, key: Hashable) -> bool:
        """A server's answer to a batch could not be shared out; whether it is to blame itself."""
        if address.name not in self._outliers:
            return True
        with self._reporting(address, "answers batches with what can't be shared out"):
            return self._outliers.garbled(address.name, key, monotonic())

    def refused(self, address: Address, retry_after: float | None) -> None:
        """A server has no time, for so many seconds if it says so."""
        if address.name in self._outliers:
            self._outliers.refused(address.name, monotonic(), retry_after)
            self._settle()
            if retry_after:
                wait = format_duration(retry_after)
                _log.warning("%s has no time, and says to come again in %s", address.name, wait)

    @contextmanager
    def _reporting(self, address: Address, reason: str) -> Iterator[None]:
        """Log it if the block ejects the server, and what that means for batches."""
        before = self._outliers.ejections
        yield
        if self._outliers.ejections > before:
            if self._outliers.none_left:
                then = "no server is left, each gets one batch in turn until one answers"
            else:
                lasts = self._outliers.ejected_for(address.name, monotonic())
                then = f"it gets no batches for {format_duration(lasts)}, the others do"
            _log.warning("%s %s: %s", address.name, reason, then)
        self._settle()

    # -------------------------------------------------------------------------------- housekeeping

    @property
    def _servers(self) -> dict[str, Address]:
        found = {each.name: each for found in self._found.values() for each in found}
        return found or {each.name: each for each in map(Location.nowhere, self._locations)}

    async def _keep_resolving(self) -> None:
        while True:
            await asyncio.sleep(_RESOLVED_EVERY)
            await self._resolve(since=monotonic())

    async def _resolve(self, since: float) -> None:
        """Look all names up; one that has no address now keeps those that it had."""
        found = dict(self._found)  # replaced at once: requests come between look-ups
        for location in self._locations:
            if location in found and not location.changes:
                continue
            try:
                found[location] = await location.addresses()
            except OSError as error:
                self._miss(location, error, found.setdefault(location, []))
            else:
                if location in self._missed:
                    self._missed.remove(location)
                    _log.info("%s has an address now", location)
        self._found = found
        self._seat(since)

    def _miss(self, location: Location, error: OSError, known: Sequence[Address]) -> None:
        """Say once that a name has no address, and what comes of it."""
        if location not in self._missed:
            self._missed.add(location)
            meanwhile = "its servers stay the same" if known else "it gets no requests"
            _log.warning(
                "upstream %s has no address: %s; it is looked up every %g s, until then %s: check"
                " the name, and that its server is up",
                location,
                error,
                _RESOLVED_EVERY,
                meanwhile,
            )

    def _seat(self, since: float) -> None:
        """Give places to those that have come, and take them from those that have gone."""
        servers = self._servers
        seated = {address.name for address in self._places.values()}
        for name in [name for name in seated if name not in servers and name in self._outliers]:
            self._outliers.dismiss(name)
            if name not in self.names:  # such a one was nowhere, and has come
                _log.info("%s has gone", name)
        for name, address in servers.items():
            if name in self._outliers:
                continue
            self._outliers.admit(name, since)
            kept = [index for index, each in self._places.items() if each.name == name]
            for index in kept:  # no other has taken them since it was here last
                self._places[index] = address
            for _ in range(self._concurrency - len(kept)):
                self._places[self._free_index()] = address
        self._settle()

    def _free_index(self) -> int:
        return next(
            index
            for index in count()
            if index not in self._places
            or (self._places[index].name not in self._outliers and index not in self._busy)
        )

    def _settle(self) -> None:
        """Say which are alive now, and be there when that changes by itself."""
        now = monotonic()
        left = {name: self._outliers.permits(name, now) for name in self._servers}
        living = set()
        for index, address in self._places.items():
            if left.get(address.name, 0) > 0:
                left[address.name] -= 1
                living.add(index)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        change = self._outliers.next_change(now)
        if change < inf:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(change - now, _SOONEST), self._settle)
        if living != self._living:
            self._living = frozenset(living)
            self._on_change()


def _somewhere(address: Address) -> Address:
    if address.nowhere:
        raise UpstreamUnreachable(f"{address.name} has no address")
    return address
