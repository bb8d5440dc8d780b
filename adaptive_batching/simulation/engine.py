"""Drives the production scheduler through virtual time: a heap, a counter and a clock.

The rules are those of the live driver. What happens at one instant is applied together, batches
that end before jobs that arrive; then `next` is asked until it says `Hold`; then one wake-up is
armed. A batch released at t that takes d ends at t + d, to the last bit.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import ceil, inf, nextafter

import numpy as np

from adaptive_batching.core import (
    Batch,
    BatchRecord,
    Hold,
    Job,
    JobOutcome,
    JobRecord,
    Outcome,
    Scheduler,
    ShedReason,
)
from adaptive_batching.errors import PolicyError, QueueFull, Refused

Service = Callable[[int], float]
"""A worker: the size of a batch in items -> the seconds that it takes."""

_SHED_AS = {ShedReason.HOPELESS: JobOutcome.SHED, ShedReason.EXPIRED: JobOutcome.EXPIRED}


@dataclass(slots=True)
class History:
    """What happened, in the order in which it ended."""

    jobs: list[JobRecord] = field(default_factory=list)
    batches: list[BatchRecord] = field(default_factory=list)


def simulate(
    arrivals: Iterable[float],
    scheduler: Scheduler,
    service: Service,
    *,
    sizes: Iterable[int] | None = None,
    max_latency: float | None = None,
    timer_resolution: float = 0.0,
) -> History:
    """Let jobs arrive and record what becomes of them and of their batches.

    Args:
        arrivals: When each job arrives (seconds), in order of time.
        scheduler: Decides, and says how many workers there are; a fresh one for each simulation.
        service: How long a batch takes.
        sizes: Items that each job brings; 1 each if left out.
        max_latency: Seconds from each job's arrival to its deadline; by default the scheduler's.
        timer_resolution: Wake-ups come at the next multiple of it (seconds), as event loops round
            them; 0 for a perfect timer.

    Raises:
        ValueError: The arrivals are not in order, a number isn't finite or the lengths differ.
        PolicyError: The policy decided something impossible, or holds jobs for ever.
    """
    times = _checked(arrivals)
    each = [1] * len(times) if sizes is None else [int(size) for size in sizes]
    if len(each) != len(times):
        msg = f"sizes: expected one for each of {len(times)} arrivals, got {len(each)}"
        raise ValueError(msg)
    patience = scheduler.limits.max_latency if max_latency is None else max_latency
    run = _Run(times, each, scheduler, service, patience=patience, resolution=timer_resolution)
    run.to_the_end()
    return run.history


class _Run:
    """One simulation under way."""

    def __init__(
        self,
        times: list[float],
        sizes: list[int],
        scheduler: Scheduler,
        service: Service,
        *,
        patience: float,
        resolution: float,
    ) -> None:
        self.history = History()
        self._times = [*times, inf]  # the sentinel saves a bounds check for every job
        self._sizes = sizes
        self._arrived = 0
        self._scheduler = scheduler
        self._service = service
        self._patience = patience
        self._resolution = resolution
        self._ends: list[tuple[float, int, Batch]] = []
        self._order = count()
        self._wake = inf

    def to_the_end(self) -> None:
        """Step from instant to instant until nothing is left to happen."""
        while (now := min(self._times[self._arrived], self._next_end, self._wake)) < inf:
            self._finish(now)
            self._admit(nextafter(now, inf))
            self._decide(now)
            if not (self._scheduler.permits.idle or self._scheduler.watchful):
                self._admit(min(self._next_end, self._wake))
        if self._scheduler.items:
            held = self._scheduler.items
            msg = f"expected a decision for the {held} items left, got a Hold for ever"
            raise PolicyError(msg)

    @property
    def _next_end(self) -> float:
        return self._ends[0][0] if self._ends else inf

    def _finish(self, now: float) -> None:
        ends = self._ends
        while ends and ends[0][0] == now:
            batch = heappop(ends)[2]
            self.history.batches.append(self._scheduler.finish(batch, Outcome.DONE, now))
            self._record(batch.jobs, now, JobOutcome.DONE)

    def _admit(self, before: float) -> None:
        """Submit all that arrives before that instant.

        Ahead of the clock only while no worker is idle: then all that `next` could do is to expire
        a job, and the deadlines come in the order of the arrivals.
        """
        times, sizes, patience = self._times, self._sizes, self._patience
        submit = self._scheduler.submit
        unarmed = self._wake == inf and patience < inf
        index = self._arrived
        while (now := times[index]) < before:
            job = Job(now, sizes[index], now + patience)
            index += 1
            try:
                submit(job)
            except Refused as refused:
                self._record([job], now, _refused_as(refused))
                continue
            if unarmed:
                unarmed = False
                self._wake = self._tick(job.deadline)
                before = min(before, self._wake)
        self._arrived = index

    def _decide(self, now: float) -> None:
        scheduler = self._scheduler
        while True:
            step = scheduler.next(now)
            if isinstance(step, Hold):
                self._wake = self._tick(step.until)
                return
            if isinstance(step, Batch):
                heappush(self._ends, (self._end(step), next(self._order), step))
            else:
                self._record(step.jobs, now, _SHED_AS[step.reason])

    def _end(self, batch: Batch) -> float:
        duration = self._service(batch.size)
        end = batch.released + duration
        if not (duration >= 0 and end < inf):
            msg = f"service: expected finite seconds of 0 or more for a batch of {batch.size}"
            raise ValueError(f"{msg}, got {duration}")
        return end

    def _tick(self, until: float) -> float:
        """When a timer set for that instant fires; never before it."""
        resolution = self._resolution
        if not resolution or until == inf:
            return until
        tick = ceil(until / resolution) * resolution
        return tick if tick >= until else tick + resolution

    def _record(self, jobs: Iterable[Job], now: float, outcome: JobOutcome) -> None:
        self.history.jobs.extend([JobRecord(job.arrived, now, job.size, outcome) for job in jobs])


def _refused_as(refused: Refused) -> JobOutcome:
    return JobOutcome.QUEUE_FULL if isinstance(refused, QueueFull) else JobOutcome.SHED


def _checked(arrivals: Iterable[float]) -> list[float]:
    times = np.asarray(arrivals if isinstance(arrivals, np.ndarray) else list(arrivals), float)
    if not np.isfinite(times).all():
        raise ValueError("arrivals: expected finite seconds, got NaN or infinity")
    if (np.diff(times) < 0).any():
        later = int(np.argmax(np.diff(times) < 0))
        msg = f"arrivals: expected times in order, got {times[later + 1]} after {times[later]}"
        raise ValueError(msg)
    checked: list[float] = times.tolist()
    return checked
