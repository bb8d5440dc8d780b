"""Drives the production scheduler through virtual time: a heap, a counter and a clock.

The rules are those of the live driver. What happens at one instant is applied together, batches
that end before jobs that arrive; then `next` is asked until it says `Hold`; then one wake-up is
armed. A batch released at t that takes d ends at t + d, to the last bit.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from math import ceil, inf, nextafter

from adaptive_batching.core import (
    Batch,
    Hold,
    Job,
    JobOutcome,
    Outcome,
    Scheduler,
    ShedReason,
)
from adaptive_batching.errors import PolicyError, QueueFull, Refused
from adaptive_batching.simulation.closed_loop import ClosedLoop
from adaptive_batching.simulation.conditions import Situated
from adaptive_batching.simulation.feed import Feed
from adaptive_batching.simulation.history import Collector, History
from adaptive_batching.simulation.servers import Service

_ENDS_AS = {
    Outcome.DONE: JobOutcome.DONE,
    Outcome.FAILED: JobOutcome.FAILED,
    Outcome.OVERLOADED: JobOutcome.FAILED,
}
_SHED_AS = {ShedReason.HOPELESS: JobOutcome.SHED, ShedReason.EXPIRED: JobOutcome.EXPIRED}


def simulate(
    arrivals: Iterable[float] | ClosedLoop,
    scheduler: Scheduler,
    service: Service | Sequence[Service],
    *,
    sizes: Iterable[int] | None = None,
    max_latency: float | None = None,
    timer_resolution: float = 0.0,
) -> History:
    """Let jobs arrive and record what becomes of them and of their batches.

    Args:
        arrivals: When each job arrives (seconds), in order of time; or users who send again when
            they are answered.
        scheduler: Decides, and says how many workers there are; a fresh one for each simulation.
        service: How long a batch takes, on any worker or, if they differ, on each.
        sizes: Items that each job brings; 1 each if left out.
        max_latency: Seconds from each job's arrival to its deadline; by default the scheduler's.
        timer_resolution: Wake-ups come at the next multiple of it (seconds), as event loops round
            them; 0 for a perfect timer.

    Raises:
        ValueError: The arrivals are not in order, a number isn't finite or the lengths differ.
        PolicyError: The policy decided something impossible, or holds jobs for ever.
    """
    history = History()
    drive(
        Feed(arrivals, sizes),
        scheduler,
        service,
        history,
        max_latency=max_latency,
        timer_resolution=timer_resolution,
    )
    return history


def drive(
    feed: Feed,
    scheduler: Scheduler,
    service: Service | Sequence[Service],
    collector: Collector,
    *,
    max_latency: float | None = None,
    timer_resolution: float = 0.0,
) -> None:
    """Like `simulate`, but keep nothing: a collector is told what happens.

    With a feed that reads as it goes, any number of jobs takes the memory of those that wait.
    """
    patience = scheduler.limits.max_latency if max_latency is None else max_latency
    _Run(
        feed, scheduler, service, collector, patience=patience, resolution=timer_resolution
    ).to_the_end()


class _Run:
    """One simulation under way."""

    def __init__(
        self,
        feed: Feed,
        scheduler: Scheduler,
        service: Service | Sequence[Service],
        collector: Collector,
        *,
        patience: float,
        resolution: float,
    ) -> None:
        self._feed = feed
        self._arrived = 0  # of the feed's present block
        self._collector = collector
        self._scheduler = scheduler
        self._services = _of_each(service, len(scheduler.permits.workers))
        self._patience = patience
        self._resolution = resolution
        self._ends: list[tuple[float, int, Batch, Outcome]] = []
        self._order = count()
        self._wake = inf

    def to_the_end(self) -> None:
        """Step from instant to instant until nothing is left to happen."""
        while (now := min(self._feed.times[self._arrived], self._next_end, self._wake)) < inf:
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
            _, _, batch, outcome = heappop(ends)
            self._collector.batch_ended(self._scheduler.finish(batch, outcome, now))
            self._end_jobs(batch.jobs, now, _ENDS_AS[outcome])

    def _admit(self, before: float) -> None:
        """Submit all that arrives before that instant.

        Ahead of the clock only while no worker is idle: then all that `next` could do is to expire
        a job, and the deadlines come in the order of the arrivals.
        """
        times, sizes, patience = self._feed.times, self._feed.sizes, self._patience
        submit = self._scheduler.submit
        unarmed = self._wake == inf and patience < inf
        index = self._arrived
        while True:
            while (now := times[index]) < before:
                job = Job(now, sizes[index], now + patience)
                index += 1
                try:
                    submit(job)
                except Refused as refused:
                    self._arrived = index
                    self._end_jobs([job], now, _refused_as(refused))
                    continue
                if unarmed:
                    unarmed = False
                    self._wake = self._tick(job.deadline)
                    before = min(before, self._wake)
            self._arrived = index
            if now < inf or not index:
                return
            more = self._feed.refill()
            self._arrived = index = 0
            if not more:
                return

    def _decide(self, now: float) -> None:
        scheduler = self._scheduler
        while True:
            step = scheduler.next(now)
            if isinstance(step, Hold):
                self._wake = self._tick(step.until)
                return
            if isinstance(step, Batch):
                self._collector.batch_released(step)
                heappush(self._ends, self._run(step))
            else:
                self._end_jobs(step.jobs, now, _SHED_AS[step.reason])

    def _run(self, batch: Batch) -> tuple[float, int, Batch, Outcome]:
        """When and how it ends, in the order of time and then of release."""
        service, outcome = self._services[batch.worker], Outcome.DONE
        if isinstance(service, Situated):
            beside = self._scheduler.permits.running - 1
            run = service.run(batch.size, batch.released, beside, batch.worker)
            duration, outcome = run.seconds, run.outcome
        else:
            duration = service(batch.size)
        end = batch.released + duration
        if not (duration >= 0 and end < inf):
            msg = f"service: expected finite seconds of 0 or more for a batch of {batch.size}"
            raise ValueError(f"{msg}, got {duration}")
        return end, next(self._order), batch, outcome

    def _tick(self, until: float) -> float:
        """When a timer set for that instant fires; never before it."""
        resolution = self._resolution
        if not resolution or until == inf:
            return until
        tick = ceil(until / resolution) * resolution
        return tick if tick >= until else tick + resolution

    def _end_jobs(self, jobs: Sequence[Job], now: float, outcome: JobOutcome) -> None:
        self._collector.jobs_ended(jobs, now, outcome)
        self._feed.answered(len(jobs), now, self._arrived)


def _of_each(service: Service | Sequence[Service], workers: int) -> Sequence[Service]:
    services = service if isinstance(service, Sequence) else [service] * workers
    if len(services) != workers:
        raise ValueError(
            f"service: expected one for each of {workers} workers, got {len(services)}"
        )
    return services


def _refused_as(refused: Refused) -> JobOutcome:
    return JobOutcome.QUEUE_FULL if isinstance(refused, QueueFull) else JobOutcome.SHED
