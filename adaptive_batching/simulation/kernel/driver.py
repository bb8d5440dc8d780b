"""One dispatcher in virtual time: what the live driver is on an event loop.

The rules are the live driver's: what happens at one instant is applied together, batches that end
before jobs that arrive; then `next` is asked until it says `Hold`; then one wake-up is armed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

from adaptive_batching.core import (
    Batch,
    Hold,
    Job,
    JobOutcome,
    Outcome,
    Scheduler,
    Shed,
    ShedReason,
    Verdict,
)
from adaptive_batching.errors import QueueFull, Refused
from adaptive_batching.simulation.clients.retries import RetryingClients
from adaptive_batching.simulation.kernel.history import Collector
from adaptive_batching.simulation.kernel.pool import Pool
from adaptive_batching.simulation.traffic.arrival_stream import ArrivalStream

_ENDS_AS = dict.fromkeys(Outcome, JobOutcome.FAILED) | {Outcome.DONE: JobOutcome.DONE}
_SHED_AS = {
    ShedReason.HOPELESS: JobOutcome.SHED,
    ShedReason.OUTWEIGHED: JobOutcome.SHED,
    ShedReason.DISPLACED: JobOutcome.SHED,
    ShedReason.EXPIRED: JobOutcome.EXPIRED,
}


@dataclass(frozen=True, slots=True)
class Loop:
    """What an event loop does to instants.

    Attributes:
        resolution: Wake-ups come at the next multiple of it (seconds); 0 for a perfect timer.
        delay: Everything is noticed so much later (seconds): arrivals, ends of batches, wake-ups.
    """

    resolution: float = 0.0
    delay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("resolution", "delay"):
            seconds = getattr(self, name)
            if not 0 <= seconds < inf:
                msg = f"loop {name}: expected finite seconds of 0 or more, got {seconds}"
                raise ValueError(msg)

    def tick(self, until: float) -> float:
        """When a timer set for that instant fires; never before it."""
        resolution = self.resolution
        if not resolution or until == inf:
            return until
        tick = ceil(until / resolution) * resolution
        return tick if tick >= until else tick + resolution


class SimulatedDriver:
    """Carries out what one scheduler decides. Instants are those of the world, not its loop's.

    Args:
        scheduler: Decides.
        pool: Takes its batches.
        feed: Is told of answers.
        collector: Is told what happens.
        loop: How late and how coarsely it notices.
        first_worker: Which worker of the pool is its first.
        clients: Send again when they are refused; None if no client does.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        pool: Pool,
        feed: ArrivalStream,
        collector: Collector,
        loop: Loop,
        first_worker: int = 0,
        clients: RetryingClients | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.first_worker = first_worker
        self.until = inf
        """Until when the scheduler wants to hold if nothing happens (seconds)."""
        self.wake = inf
        """When the timer that is set for it fires (seconds)."""
        self.alert = False
        """Whether something has happened since it last decided."""
        self.loop = loop
        self._pool = pool
        self._feed = feed
        self._collector = collector
        self._clients = clients
        self._running = 0  # requests
        self._shed: list[Shed] = []
        self._restart = 0.0  # seconds that a worker which died takes to come back

    @property
    def outstanding(self) -> int:
        """Requests that wait or run."""
        return self.scheduler.requests + self._running

    @property
    def deserted(self) -> bool:
        """Whether no worker is alive."""
        return not self.scheduler.permits.capacity

    @property
    def busy(self) -> bool:
        """Whether nothing but an end can make it do anything before `until`."""
        if self.scheduler.permits.idle or self.loop.delay:
            return False  # what is noticed late may be beyond `until` already
        return not self.scheduler.watchful

    def admit(self, job: Job) -> None:
        """Let a job wait, or refuse it."""
        self.alert = True
        lost = self.deserted and job.deadline < job.arrived + self._restart
        if lost:  # as live: no worker could answer in time
            self._end([job], job.arrived, JobOutcome.SHED, self._restart)
            return
        try:
            self.scheduler.submit(job)
        except Refused as refused:
            self.refused(job, refused)
            return
        if job.deadline < self.until:
            self.arm(job.deadline)
            self.scheduler.wakes_at(job.deadline)

    def arm(self, until: float) -> None:
        """Set the one timer."""
        self.until = until
        self.wake = self.loop.tick(until) if self.loop.resolution else until

    def refused(self, job: Job, refused: Refused) -> None:
        """The scheduler did not take it."""
        outcome = JobOutcome.QUEUE_FULL if isinstance(refused, QueueFull) else JobOutcome.SHED
        self._end([job], job.arrived, outcome, refused.retry_after)

    def decide(self, now: float) -> None:
        """Do what the scheduler says until it says hold, and arm the timer."""
        scheduler = self.scheduler
        noticed = now + self.loop.delay
        self.alert = False
        while not isinstance(step := scheduler.next(noticed), Hold):
            if isinstance(step, Batch):
                self._collector.batch_released(step)
                self._running += len(step.jobs)
                self._pool.launch(self, step)
            else:
                self._shed.append(step)
        self.arm(step.until)
        if self._shed:
            self._turn_away(noticed)

    def _turn_away(self, noticed: float) -> None:
        """As live, once it is known which worker is busy, and so when to come again."""
        some, self._shed = self._shed, []
        for shed in some:
            wait = (
                0.0 if self._clients is None else self.scheduler.retry_after(shed.jobs[0], noticed)
            )
            self._end(shed.jobs, noticed, _SHED_AS[shed.reason], wait)

    def finish(self, batch: Batch, outcome: Outcome, now: float) -> None:
        """A batch has ended."""
        self.alert = True
        noticed = now + self.loop.delay
        self._running -= len(batch.jobs)
        failed = () if outcome is Outcome.DONE else batch.jobs
        start = noticed + self._restart if self.deserted else noticed
        record, verdicts = self.scheduler.finish(batch, outcome, noticed, failed, start)
        self._collector.batch_ended(record)
        ended = [job for job in batch.jobs if verdicts.get(job) is not Verdict.AGAIN]
        self._end(ended, noticed, _ENDS_AS[outcome])

    def worker_lost(self, worker: int, now: float, restart: float) -> None:
        """One permit less; if it was the last, no job waits that can't be served in time."""
        noticed = now + self.loop.delay
        self.alert = True
        self._restart = restart
        permits = self.scheduler.permits
        permits.set_alive([each.index for each in permits.alive if each.index != worker])
        if self.deserted:
            hopeless = self.scheduler.abandon(due_before=noticed + restart)
            self._end(hopeless, noticed, JobOutcome.SHED, restart)

    def worker_back(self, worker: int, now: float) -> None:
        """The permit is there again."""
        self.alert = True
        permits = self.scheduler.permits
        permits.set_alive([*(each.index for each in permits.alive), worker])

    def _end(
        self, jobs: Sequence[Job], now: float, outcome: JobOutcome, retry_after: float = 0.0
    ) -> None:
        if self._clients is not None:
            jobs = self._clients.told(jobs, now, outcome, retry_after)
            if not jobs:
                return
        self._collector.jobs_ended(jobs, now, outcome)
        self._feed.answered(len(jobs), now)
