"""Queues in tandem: when each stage has to be done with a job that goes through all of them.

Items ahead are taken to fill whole batches and never to keep a later stage waiting; a job's own
batches, to be as large as those of late, but for itself alone where there is no other.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple, Self

from adaptive_batching.core.admission import LATER
from adaptive_batching.core.scheduler import Scheduler
from adaptive_batching.errors import Overloaded
from adaptive_batching.units import format_duration


class Station(NamedTuple):
    """One stage as the predictions have it; while there are too few to refuse work on, all but
    `overrun` is zero.
    """

    batch: float = 0.0
    """Seconds that one's own batch takes."""
    free: float = 0.0
    """Seconds until a worker is free."""
    full_batch: float = 0.0
    """Seconds that the largest batch takes."""
    limit: int = 1
    """Items of the largest batch."""
    workers: int = 1
    ahead: int = 0
    """Items that are to be taken up before one that comes now."""
    overrun: float = 0.0
    """Seconds that batches may take beyond `free`, for callers that are told to come again then."""

    @classmethod
    def of(cls, scheduler: Scheduler, now: float, upstream: int = 0) -> Self:
        """What a scheduler knows of its stage; `upstream` items are to come before one's own."""
        latency, permits = scheduler.latency, scheduler.permits
        if not permits.capacity:
            return cls()
        room = 0.0 if permits.idle else permits.room_after(now, latency.predict(1))
        if not latency.trusted:
            return cls(overrun=room)
        free = 0.0 if permits.idle else permits.next_free(now) - now
        limit = scheduler.limits.max_batch_size
        ahead = upstream + scheduler.items
        alone = permits.idle and not ahead
        return cls(
            latency.predict(1 if alone else latency.largest),
            free,
            latency.predict(limit),
            limit,
            permits.capacity,
            ahead,
            max(0.0, room - free),
        )

    @property
    def opens(self) -> float:
        """Seconds until a worker is free, for callers that are told to come again then."""
        return self.free + self.overrun

    @property
    def wait(self) -> float:
        """Seconds until one that comes now could be taken up, if it were here."""
        return self.free + self.ahead // self.limit // self.workers * self.full_batch


class Tandem:
    """Lets jobs into the first of some stages, or not, and shares their time out among them."""

    __slots__ = ("_let_in", "_needed_after")

    def __init__(self) -> None:
        self._let_in = -inf  # when a job was, the last time (seconds)
        self._needed_after: Sequence[float] = ()  # by stage; as of the newest arrival (seconds)

    def admit(self, stations: Sequence[Station], deadline: float, now: float) -> bool:
        """Let a job in that can get through all stations by its deadline.

        If none could for as long as it is ready to wait, one is let in all the same: else a
        prediction that is wrong would never be put to the test.

        Returns:
            Whether it is expected to be in time; False for the one that is a test.

        Raises:
            Overloaded: It would be late by all that is known.
        """
        needed = list(accumulate(station.batch for station in reversed(stations)))
        late = earliest_finish(stations, now) + just_missed(stations) - deadline
        patience = deadline - now
        if late > 0 and now - self._let_in < patience:
            wait = self._let_in + patience - now  # until the next test
            if needed[-1] <= patience:  # it is the backlog's fault
                told = [station._replace(free=station.opens) for station in stations]
                late = earliest_finish(told, now) + just_missed(told) - deadline
                wait = min(wait, late)
            msg = f"through {len(stations)} stages within {format_duration(patience)}"
            raise Overloaded(f"an answer is out of reach {msg}", retry_after=wait * LATER)
        self.let_in(now)
        self._needed_after = [0.0, *needed[:-1]][::-1]
        return late <= 0

    def let_in(self, now: float) -> None:
        """A job that can't be late is as good a test of the predictions."""
        self._let_in = now

    def latest_finish(self, stage: int, deadline: float) -> float:
        """When a stage has to be done with a job, for the later ones to be in time (seconds)."""
        return deadline - self._needed_after[stage]


def earliest_finish(stations: Sequence[Station], now: float) -> float:
    """When a job that comes to the first of them now can be through all (seconds)."""
    finish = now
    for station in stations:
        finish = max(finish, now + station.wait) + station.batch
    return finish


def just_missed(stations: Sequence[Station]) -> float:
    """Seconds that a job may lose where it comes a moment after a batch has left.

    Stages do not keep step: a job let in at the very last moment then fails in a later one, with
    work done for it in those before. What a batch of the slowest takes is enough; where all
    that are ahead fit into one, there is none to miss.
    """
    crowded = (station.batch for station in stations[1:] if station.wait > station.free)
    return max(crowded, default=0.0)
