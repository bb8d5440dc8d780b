"""What a policy sees and what it may answer."""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, runtime_checkable

from adaptive_batching.core.estimators.arrivals import ArrivalRate
from adaptive_batching.core.estimators.delays import TimerLateness
from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.permits import Permits
from adaptive_batching.core.queue import JobQueue
from adaptive_batching.core.records import BatchRecord
from adaptive_batching.core.retry.memory_limit import MemoryLimit
from adaptive_batching.core.worker import KeyPace, Latency, Worker

RATE_WINDOW = 16  # full batches: short enough to turn with the traffic, long enough to count it


@dataclass(frozen=True, slots=True)
class Limits:
    """What the user asked for.

    Attributes:
        max_batch_size: Items in one batch at the most.
        max_latency: Seconds from arrival to answer; `inf` promises nothing and refuses nothing.
        max_queue: Items that may wait.
    """

    max_batch_size: int = 64
    max_latency: float = inf
    max_queue: int = 65_536

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "max_queue"):
            items = getattr(self, name)
            if not (isinstance(items, int) and items >= 1):
                msg = f"{name}: expected at least 1 item, got {items!r}"
                raise ValueError(msg)
        seconds: object = self.max_latency
        if not (isinstance(seconds, int | float) and seconds > 0):
            msg = f"max_latency: expected a positive number of seconds, got {self.max_latency!r}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send the most urgent jobs, up to `size` items.

    Raises:
        TypeError: The size is no whole number, or the reason is no `Reason`.
    """

    size: int
    reason: Reason

    def __post_init__(self) -> None:
        if not (isinstance(self.size, int) or hasattr(self.size, "__index__")):
            raise TypeError(f"Dispatch.size: expected a whole number of items, got {self.size!r}")
        if not isinstance(self.reason, Reason):
            raise TypeError(f"Dispatch.reason: expected a Reason, got {self.reason!r}")


@dataclass(frozen=True, slots=True)
class Hold:
    """Do nothing before `until` (seconds), unless something arrives or ends; `inf`: only then.

    Raises:
        TypeError: That is no number.
    """

    until: float = inf

    def __post_init__(self) -> None:
        if not isinstance(self.until, (float, int)):
            raise TypeError(f"Hold.until: expected seconds, got {self.until!r}")


class ShedReason(enum.Enum):
    """Why jobs are turned away."""

    HOPELESS = "hopeless"
    """Even if released now they would be late."""
    EXPIRED = "expired"
    """Their deadline has passed."""


@dataclass(frozen=True, slots=True)
class Shed:
    """Turn these waiting jobs away.

    Raises:
        TypeError: They are no list, there is something else among them, or the reason is no
            `ShedReason`.
    """

    jobs: Sequence[Job]
    reason: ShedReason

    def __post_init__(self) -> None:
        jobs: object = self.jobs
        if not (isinstance(jobs, Sequence) and all(isinstance(job, Job) for job in jobs)):
            raise TypeError(f"Shed.jobs: expected a list of jobs, got {jobs!r}")
        if not isinstance(self.reason, ShedReason):
            raise TypeError(f"Shed.reason: expected a ShedReason, got {self.reason!r}")


Decision = Dispatch | Hold | Shed


class QueueView:
    """What a policy may know: one queue of jobs that may share a batch, and the workers.

    Attributes:
        limits: What the user asked for, or less if a worker's memory is too small for that, or if
            too many items make the batches fail that they are in.
        latency: The fitted duration of a batch, on the worker that it would run on.
        line: The same on a worker as fast as most.
        worker: Which one that is: the best of the idle ones, or of the busy ones if none is idle;
            None while all are alike.
        arrivals: The stream that feeds this queue.
    """

    __slots__ = (
        "_permits", "_timer_lateness", "arrivals", "cap", "latency", "limits", "line",
        "opened", "pace", "queue", "worker",
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
        self.queue = queue  # the scheduler's to change; policies read it through the names below
        self._permits = permits
        self.limits = limits
        self.cap: MemoryLimit | None = None  # the scheduler's: once a batch ran out of memory
        self.line = latency
        self.latency = latency
        self.pace = pace  # what the scheduler learns of its key; None if that has its own line
        self.worker: Worker | None = None
        self.arrivals: ArrivalRate = queue.arrivals
        self._timer_lateness = timer_lateness
        self.opened = opened  # how many queues were before it: of equals, the older goes first

    @property
    def items(self) -> int:
        """Items waiting; at least 1 when a policy is asked."""
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
    def oldest(self) -> Job:
        """The job that came first."""
        return self.queue.oldest

    @property
    def soonest(self) -> Job:
        """The job that expires first."""
        return self.queue.soonest

    @property
    def newest(self) -> Job:
        """The job that came last."""
        return self.queue.newest

    def jobs(self) -> Iterator[Job]:
        """The waiting jobs in the order in which they leave."""
        return iter(self.queue)

    def by_deadline(self) -> Iterator[Job]:
        """The waiting jobs, the earliest deadline first."""
        return self.queue.by_deadline()

    def ahead_of(self, job: Job) -> int:
        """Items that would be served before a job that came now, at most; with tenants, fewer."""
        return self.queue.ahead_of(job)

    @property
    def workers(self) -> int:
        """Workers that are alive."""
        return self._permits.capacity

    @property
    def idle(self) -> int:
        """Workers that could take a batch now; at least 1 when a policy is asked to decide."""
        return self._permits.idle

    @property
    def capacity(self) -> float:
        """How many workers like `worker` could do the work of all that are alive."""
        if self.worker is None:
            return self._permits.capacity
        return self.worker.worth(self._permits.alive)

    @property
    def alive(self) -> list[Worker]:
        """The workers that are alive."""
        return self._permits.alive

    def foremost(self, now: float) -> Worker | None:
        """The busy worker on which a large batch would end first; None if none is busy."""
        return self._permits.foremost(now)

    def aim(self, worker: Worker | None) -> None:
        """The scheduler says on which worker the next batch would run; None if all are alike."""
        self.worker = worker
        self.latency = self.line if worker is None else worker.latency_by(self.line)

    def learned(self, pace: KeyPace) -> None:
        """The scheduler says that the pace of this queue's key has been learned from."""
        self.line = pace.latency
        self.aim(self.worker)

    def retune(self, limits: Limits) -> None:
        """The scheduler says that the user asks for something else."""
        self.limits, self.cap = limits, None

    def digest(self, now: float) -> None:
        """The scheduler wants it to learn from the arrivals since it was last asked to."""
        if self.arrivals.fresh:
            self.arrivals.digest(now, self.window, self.line.predict(1))

    def duration_on(self, worker: Worker, size: float) -> float:
        """Expected seconds for a batch of `size` items on this worker."""
        return self.line.predict(size) * worker.latency.factor

    def aim_at_best(self, now: float) -> None:
        """The scheduler wants it to be where the next batch would end first."""
        permits = self._permits
        if permits.uneven:
            self.aim(permits.idlest if permits.idle else permits.foremost(now))
        elif self.worker is not None:
            self.aim(None)

    @property
    def window(self) -> float:
        """Seconds over which the arrival rate is taken: 16 full batches."""
        return RATE_WINDOW * self.line.predict(self.limits.max_batch_size)

    @property
    def timers_late(self) -> float:
        """Seconds by which nearly no wake-up has been later than it was asked for."""
        return self._timer_lateness.late

    @property
    def last_release(self) -> float:
        """When the last batch of any queue left (seconds)."""
        return self._permits.last_release

    def next_free(self, now: float) -> float:
        """When the next busy worker is expected to be free (seconds); `inf` if none is busy.

        If they differ, the one on which a large batch would end first.
        """
        return self._permits.next_free(now)

    def next_expected(self, now: float) -> float:
        """When the next busy worker can be counted on, whoever hangs left out; `inf` if none."""
        return self._permits.next_expected(now, self.latency.margin)


@runtime_checkable
class Policy(Protocol):
    """Decides when a batch leaves and how large it is; asked only while a worker is idle."""

    def decide(self, queue: QueueView, now: float) -> Decision:
        """What to do with this queue now."""

    def observe(self, batch: BatchRecord) -> None:
        """A batch has ended."""


@runtime_checkable
class Doorkeeper(Protocol):
    """A policy may also turn jobs away at the door, before they wait for nothing."""

    def refuse(self, queue: QueueView, job: Job, now: float) -> float | None:
        """None to let the job in, or the seconds after which it could be if nobody else came."""


@runtime_checkable
class Watcher(Protocol):
    """A policy may also be asked while every worker is busy, to turn away who waits in vain."""

    def watch(self, queue: QueueView, now: float) -> Decision:
        """As `decide`, but there is nobody to dispatch to: Hold or Shed."""
