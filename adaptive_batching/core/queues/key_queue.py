"""The queue of one batch key, and what is known of its batches."""

from math import inf

from adaptive_batching.core.estimators.arrivals import ArrivalRate
from adaptive_batching.core.estimators.delays import TimerLateness
from adaptive_batching.core.estimators.evidence import SHORT_MEMORY
from adaptive_batching.core.job import Job
from adaptive_batching.core.permits import Permits
from adaptive_batching.core.policy import FasterWorker, Limits, Situation
from adaptive_batching.core.queues.job_queue import JobQueue
from adaptive_batching.core.retry.memory_limit import MemoryLimit
from adaptive_batching.core.worker import KeyPace, Latency

_NO_JOB = Job(inf)  # in the places of those that are not read where none waits


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
    """

    __slots__ = (
        "_permits", "_timer_lateness", "arrivals", "cap", "limits", "line", "opened", "pace",
        "queue",
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
    ) -> None:
        self.queue = queue
        self.limits = limits
        self.cap: MemoryLimit | None = None
        self.line = latency
        self.pace = pace
        self.arrivals: ArrivalRate = queue.arrivals
        self.opened = opened
        self._permits = permits
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

    def duration(self, items: float) -> float:
        """Expected seconds for a batch of so many items, which cost as much as those that wait."""
        groups = self.queue.groups
        if groups is None or not self.queue.items:
            return self.line.predict(items)
        return self.line.predict(items, groups.cost * items / self.queue.items)

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
        self.arrivals.digest(now, self.window, line.fixed + line.per_item)

    @property
    def window(self) -> float:
        """Seconds over which the arrival rate is taken: 16 full batches."""
        line = self.line
        return SHORT_MEMORY * (line.fixed + line.per_item * self.limits.max_batch_size)

    def situation(self, now: float) -> Situation:
        """All that a policy may know at this instant (seconds)."""
        queue, permits, limits, line = self.queue, self._permits, self.limits, self.line
        arrivals = self.arrivals
        fixed, per_item = line.fixed, line.per_item
        window = SHORT_MEMORY * (fixed + per_item * limits.max_batch_size)
        known = Situation(
            now,
            queue.items,
            queue.requests,
            queue,
            *(queue.foremost() if queue.requests else (_NO_JOB, _NO_JOB, _NO_JOB)),
            permits.running,
            limits,
            permits.idle,
            permits.capacity,
            permits.capacity,
            fixed,
            per_item,
            line.per_item_at_most,
            line.margin,
            line.largest,
            line.peak,
            line.batches,
            line.trusted,
            arrivals.rate(now, window),
            arrivals.mean_size,
            arrivals,
            permits.next_free(now),
            permits.last_release,
            self._timer_lateness.resolution,
            self._timer_lateness.late,
        )
        if limits.costs is not None:
            known = known._replace(per_cost=line.per_cost, mean_cost=line.mean_cost)
        return self._among_uneven(known) if permits.uneven else known

    def _among_uneven(self, known: Situation) -> Situation:
        """What is lost by waiting where workers differ in speed."""
        permits, now = self._permits, known.now
        foremost = permits.foremost(now)
        worker = permits.idlest if known.idle else foremost
        if worker is None:
            return known
        factor = worker.latency.factor
        faster = None
        if known.idle and foremost is not None and foremost.latency.factor < factor:
            batch = foremost.batch
            assert batch is not None
            ahead = [each for each in permits.alive if each.latency.factor < factor]
            faster = FasterWorker(
                foremost.latency.factor / factor,
                batch.released,
                batch.predicted,
                worker.worth(ahead),
            )
        return known._replace(
            fixed=known.fixed * factor,
            per_item=known.per_item * factor,
            per_item_at_most=known.per_item_at_most * factor,
            per_cost=known.per_cost * factor,
            capacity=worker.worth(permits.alive),
            passed_over=now - worker.released,
            faster=faster,
        )
