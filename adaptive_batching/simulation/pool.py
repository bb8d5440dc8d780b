"""Workers in virtual time: they take batches, and some die over them."""

from collections import deque
from functools import partial
from math import inf
from typing import Protocol

from adaptive_batching.core import Batch, Outcome
from adaptive_batching.simulation.agenda import Agenda
from adaptive_batching.simulation.conditions import Run, Situated
from adaptive_batching.simulation.servers import Service


class Owner(Protocol):
    """Who released a batch and is told what becomes of it, and of the worker that it was on."""

    def finish(self, batch: Batch, outcome: Outcome, now: float) -> None:
        """The batch has ended."""
        ...

    def worker_lost(self, now: float, restart: float) -> None:
        """A worker died; it is back after so many seconds."""
        ...

    def worker_back(self, now: float) -> None:
        """It is."""
        ...


class Pool:
    """Runs each batch at once: who releases no more of them than he has workers never waits."""

    def __init__(self, service: Service, agenda: Agenda) -> None:
        self._service = service
        self._agenda = agenda
        self._running = 0

    def launch(self, owner: Owner, batch: Batch) -> None:
        """Take a batch at the instant of its release."""
        self._begin(owner, batch, batch.released)

    def _begin(self, owner: Owner, batch: Batch, now: float) -> None:
        service = self._service
        if isinstance(service, Situated):
            run = service.run(batch.size, now, self._running)
        else:
            run = Run(service(batch.size), now, self._running)
        end = now + run.seconds
        if not (run.seconds >= 0 and end < inf):
            msg = f"service: expected finite seconds of 0 or more for a batch of {batch.size}"
            raise ValueError(f"{msg}, got {run.seconds}")
        self._running += 1
        self._agenda.at(end, partial(self._end, owner, batch, run))

    def _end(self, owner: Owner, batch: Batch, run: Run, now: float) -> None:
        self._running -= 1
        if run.restart is not None:
            self._die(owner, run.restart, now)
        owner.finish(batch, run.outcome, now)

    def _die(self, owner: Owner, restart: float, now: float) -> None:
        owner.worker_lost(now, restart)
        self._agenda.at(now + restart, owner.worker_back)


class SharedPool(Pool):
    """Several owners believe to have all of its workers: what finds none free waits its turn.

    Args:
        service: How long batches take.
        agenda: Where their ends are announced.
        workers: Batches that may run at the same time.
    """

    def __init__(self, service: Service, agenda: Agenda, workers: int) -> None:
        super().__init__(service, agenda)
        self.owners: list[Owner] = []
        """All of them, who are told when a worker dies."""
        self._alive = workers
        self._waiting: deque[tuple[Owner, Batch]] = deque()

    def launch(self, owner: Owner, batch: Batch) -> None:
        """Take a batch, or let it wait behind those that came before."""
        self._waiting.append((owner, batch))
        self._serve(batch.released)

    def _end(self, owner: Owner, batch: Batch, run: Run, now: float) -> None:
        super()._end(owner, batch, run, now)
        self._serve(now)

    def _die(self, owner: Owner, restart: float, now: float) -> None:
        self._alive -= 1
        for each in self.owners:
            each.worker_lost(now, restart)
        self._agenda.at(now + restart, self._return)

    def _return(self, now: float) -> None:
        self._alive += 1
        for each in self.owners:
            each.worker_back(now)
        self._serve(now)

    def _serve(self, now: float) -> None:
        while self._waiting and self._running < self._alive:
            self._begin(*self._waiting.popleft(), now)
