"""Workers in virtual time: they take batches, and some die over them."""

from collections import deque
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Protocol

from adaptive_batching.core import Batch, Outcome
from adaptive_batching.simulation.kernel.event_queue import EventQueue
from adaptive_batching.simulation.servers.runs import Run, Situated
from adaptive_batching.simulation.servers.servers import Service


class Owner(Protocol):
    """The releaser of a batch, told what becomes of it and of the worker that it was on.

    Attributes:
        first_worker: Which worker of the pool it calls 0.
    """

    first_worker: int

    def finish(self, batch: Batch, outcome: Outcome, now: float) -> None:
        """The batch has ended."""

    def worker_lost(self, worker: int, now: float, restart: float) -> None:
        """A worker died; it is back after `restart` seconds."""

    def worker_back(self, worker: int, now: float) -> None:
        """A worker that died is back."""


class Pool:
    """Runs each batch at once, on the worker that it names: its owner knows which are idle.

    Args:
        services: How long a batch takes on each worker.
        events: Where the ends of batches are announced.
    """

    def __init__(self, services: Sequence[Service], events: EventQueue) -> None:
        self._services = services
        self._events = events
        self._running = 0

    def launch(self, owner: Owner, batch: Batch) -> None:
        """Take a batch at the instant of its release."""
        self._begin(owner, batch, owner.first_worker + batch.worker, batch.released)

    def _begin(self, owner: Owner, batch: Batch, worker: int, now: float) -> None:
        service = self._services[worker]
        if isinstance(service, Situated):
            run = service.run(batch.size, now, self._running, worker, batch.key, batch.jobs)
        else:
            run = Run(service(batch.size), now, self._running, worker)
        end = now + run.seconds
        if not (run.seconds >= 0 and end < inf):
            msg = f"service: expected finite seconds of 0 or more for a batch of {batch.size}"
            raise ValueError(f"{msg}, got {run.seconds}")
        self._running += 1
        self._events.at(end, partial(self._end, owner, batch, run))

    def _end(self, owner: Owner, batch: Batch, run: Run, now: float) -> None:
        self._running -= 1
        if run.restart is not None:
            self._die(owner, run.worker, run.restart, now)
        owner.finish(batch, run.outcome, now)

    def _die(self, owner: Owner, worker: int, restart: float, now: float) -> None:
        named = worker - owner.first_worker
        owner.worker_lost(named, now, restart)
        self._events.at(now + restart, partial(owner.worker_back, named))


class SharedPool(Pool):
    """Several owners believe to have all of its workers: what finds none free waits its turn.

    They can't know which are idle, so a batch runs on the worker that has been idle longest.
    """

    def __init__(self, services: Sequence[Service], events: EventQueue) -> None:
        super().__init__(services, events)
        self.owners: list[Owner] = []
        """All owners, which are told when a worker dies."""
        self._idle = deque(range(len(services)))
        self._waiting: deque[tuple[Owner, Batch]] = deque()

    def launch(self, owner: Owner, batch: Batch) -> None:
        """Take a batch, or let it wait behind those that came before."""
        self._waiting.append((owner, batch))
        self._serve(batch.released)

    def _end(self, owner: Owner, batch: Batch, run: Run, now: float) -> None:
        if run.restart is None:
            self._idle.append(run.worker)
        super()._end(owner, batch, run, now)
        self._serve(now)

    def _die(self, owner: Owner, worker: int, restart: float, now: float) -> None:
        for each in self.owners:
            each.worker_lost(worker, now, restart)
        self._events.at(now + restart, partial(self._return, worker))

    def _return(self, worker: int, now: float) -> None:
        self._idle.append(worker)
        for each in self.owners:
            each.worker_back(worker, now)
        self._serve(now)

    def _serve(self, now: float) -> None:
        while self._waiting and self._idle:
            owner, batch = self._waiting.popleft()
            self._begin(owner, batch, self._idle.popleft(), now)


def of_each(service: Service | Sequence[Service], workers: int) -> Sequence[Service]:
    """One for each worker.

    Raises:
        ValueError: There are some, but not as many.
    """
    services = service if isinstance(service, Sequence) else [service] * workers
    if len(services) != workers:
        number = len(services)
        raise ValueError(f"service: expected one for each of {workers} workers, got {number}")
    return services
