"""The queue of one batch key, and what is known of its batches."""

from math import inf
from typing import Protocol, runtime_checkable

from adaptive_batching.core.estimators.arrivals import ArrivalRate
from adaptive_batching.core.estimators.delays import TimerLateness
from adaptive_batching.core.estimators.evidence import SHORT_MEMORY
from adaptive_batching.core.estimators.fading_sum import FadingSum
from adaptive_batching.core.estimators.pace import KeyPace, Latency
from adaptive_batching.core.job import Job
from adaptive_batching.core.permits import Permits
from adaptive_batching.core.policy import (
    NONE_WELCOME,
    FasterWorker,
    Limits,
    Situation,
    Welcome,
)
from adaptive_batching.core.queues.job_queue import JobQueue
from adaptive_batching.core.retry.memory_limit import MemoryLimit

_NO_JOB = Job(inf)
_NO_JOBS = (_NO_JOB, _NO_JOB, _NO_JOB)  # in the places of those that are not read where none waits
_tuple = tuple.__new__  # what a named tuple's own constructor calls, for twice the price


class KeyQueue:
    """One queue of jobs that may share a batch, and what is known of their batches.

    Attributes:
        queue: The jobs.
        limits: What the user asked for, or less; see `Situation`.
        cap: What is known of the workers' memory, once a batch ran out of it.
        line: The fitted duration of a batch on a worker as fast as most.
        pace: What is learned of this key beside all others; None if it has a line of its own.
        arrivals: The stream that feeds this queue.
        opened: How many queues were before it: of equals, the older goes first.
        permits: The workers, which all queues share.
        welcome: The jobs that it takes for certain, by a policy that is a `Host`.
        welcome_as_of: What `permits.changes` was when the policy said that.
    """

    __slots__ = (
        "_timer_lateness", "arrivals", "cap", "forgotten", "gone", "limits", "line", "opened",
        "pace", "permits", "probes", "queue", "untried", "welcome", "welcome_as_of",
    )  # fmt: skip

    def __init__(
        self,
        queue: JobQueue,
        permits: Permits,
        limits: Limits,
        latency: Latency,
        timer_lateness: TimerLateness,
        opened: int = 0,
        pace: KeyPace | None = None,
        now: float = -inf,
    ) -> None:
        self.queue = queue
        self.limits = limits
        self.cap: MemoryLimit | None = None
        self.forgotten = now
        """When what is known of its batches is outdated (seconds); see `Situation`."""
        self.untried = True
        """Whether no batch of it has left."""
        self.probes = 0
        """Probes that left last, one after another."""
        self.gone = FadingSum()
        """Items that left of late, while there were several keys."""
        self.line = latency
        self.pace = pace
        self.arrivals: ArrivalRate = queue.arrivals
        self.opened = opened
        self.permits = permits
        self.welcome = NONE_WELCOME
        self.welcome_as_of = -1
        self._timer_lateness = timer_lateness

    @property
    def items(self) -> int:
        """Items waiting."""
        return self.queue.items

    @property
    def requests(self) -> int:
        """Jobs waiting."""
        return self.queue.requests

    @property
    def head(self) -> Job:
        """The job that leaves first."""
        return self.queue.head

    @property
    def mean_cost(self) -> float:
        """What an item costs that waits, or that ran of late if none does."""
        groups = self.queue.groups
        if groups is None or not self.queue.items:
            return self.line.mean_cost
        return groups.cost / self.queue.items

    def full(self, cost: float) -> int:
        """Items of a full batch of items that cost so much each."""
        return self.limits.full(self.line.peak, cost)

    def duration(self, items: float) -> float:
        """Expected seconds for a batch of so many items, which cost as much as those that wait."""
        if self.queue.groups is None:
            return self.line.predict(items)
        return self.line.predict(items, self.mean_cost * items)

    def learned(self, pace: KeyPace) -> None:
        """The pace of this queue's key has been learned from."""
        self.line = pace.latency

    def retune(self, limits: Limits) -> None:
        """The user asks for something else."""
        self.limits, self.cap = limits, None
        if self.queue.groups is not None:
            self.queue.groups.run_in(limits.sizes)

    def digest(self, now: float) -> None:
        """Learn from the arrivals since the last time."""
        line = self.line
        fixed, per_item = line.fixed, line.per_item
        window = SHORT_MEMORY * (fixed + per_item * self.limits.max_batch_size)
        self.arrivals.digest(now, window, fixed + per_item)

    @property
    def window(self) -> float:
        """Seconds over which the arrival rate is taken: 16 full batches."""
        line = self.line
        return SHORT_MEMORY * (line.fixed + line.per_item * self.limits.max_batch_size)

    def situation(self, now: float, others: float = 0.0) -> Situation:
        """All that a policy may know.

        Args:
            now: The present (seconds).
            others: At the door, seconds that other keys' batches take which go first; see
                `Situation`. Here on a worker as fast as most.
        """
        queue, permits, limits, line = self.queue, self.permits, self.limits, self.line
        arrivals = self.arrivals
        fixed, per_item = line.fixed, line.per_item
        head, oldest, soonest = queue.foremost() if queue.requests else _NO_JOBS
        timers = self._timer_lateness
        resolution = timers.resolution
        rate = arrivals.rate(now, SHORT_MEMORY * (fixed + per_item * limits.max_batch_size))
        known = _tuple(
            Situation,
            (
                now,
                queue.items,
                queue.requests,
                queue,
                head,
                oldest,
                soonest,
                permits.running,
                limits,
                permits.idle,
                permits.idle,
                permits.capacity,
                permits.capacity,
                fixed,
                per_item,
                line.margin,
                line.largest,
                line.peak,
                line.batches,
                line.trusted,
                rate,
                arrivals.mean_size,
                queue.items,
                rate * arrivals.mean_size,
                arrivals,
                max(now, permits.earliest),
                permits.last_release,
                self.forgotten,
                self.untried,
                permits.next_probe,
                resolution,
                resolution if rate * resolution <= 1.0 else 1.0 / rate,
                timers.late,
                line.per_cost,
                line.per_size,
                line.mean_cost,
                line.largest_cost,
                limits.max_batch_size if limits.costs is None else self.full(line.mean_cost),
                permits.latency,
                0.0,
                None,
                others,
            ),
        )
        return self._among_uneven(known) if permits.uneven else known

    def _among_uneven(self, known: Situation) -> Situation:
        """What is lost by waiting where workers differ in speed."""
        permits, now = self.permits, known.now
        foremost = permits.foremost(now)
        worker = permits.idlest if known.idle else foremost
        if worker is None:
            return known._replace(next_free=inf)
        factor, alive = worker.latency.factor, permits.alive
        faster = None
        if known.idle and foremost is not None and foremost.latency.factor < factor:
            batch = foremost.batch
            assert batch is not None
            ahead = [each for each in alive if each.latency.factor < factor]
            faster = FasterWorker(
                foremost.latency.factor / factor,
                batch.released,
                batch.predicted,
                worker.worth(ahead),
            )
        come = self.arrivals.clump.size(now) * known.mean_size
        return known._replace(
            next_free=inf if foremost is None else foremost.free(now),
            fixed=known.fixed * factor,
            per_item=known.per_item * factor,
            per_cost=known.per_cost * factor,
            per_size=known.per_size * factor,
            others=known.others * factor,
            idle_share=permits.idle_share(self.line, known.items + come),
            capacity=worker.worth(alive),
            passed_over=now - worker.released,
            faster=faster,
        )


@runtime_checkable
class Host(Protocol):
    """A doorkeeper may also know which jobs are welcome until a batch leaves or ends.

    Then no situation is built for each of them, nor is a method called.
    """

    def welcome(self, queue: KeyQueue) -> Welcome:
        """The jobs that are let in for certain; about any other `refuse` is asked."""
        ...
