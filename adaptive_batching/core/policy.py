"""What a policy sees and what it may answer."""

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import NamedTuple, Protocol, runtime_checkable

from adaptive_batching.core.allowed import are_ascending, last_allowed, next_allowed
from adaptive_batching.core.costs import Costs
from adaptive_batching.core.estimators.arrivals import ArrivalRate
from adaptive_batching.core.estimators.delays import LARGEST_SHARE
from adaptive_batching.core.estimators.evidence import EXTRAPOLATION
from adaptive_batching.core.estimators.line import Line
from adaptive_batching.core.estimators.pace import Latency
from adaptive_batching.core.estimators.peak_size import PeakSize
from adaptive_batching.core.job import Batch, Job, Reason
from adaptive_batching.core.queues.cost_groups import Terms
from adaptive_batching.core.queues.cost_runs import Run
from adaptive_batching.core.queues.job_queue import JobQueue
from adaptive_batching.core.records import BatchRecord
from adaptive_batching.units import LARGEST_BATCH, is_number, is_whole_number

_ROUNDING = 1e-9  # relative; more than a mean of equal costs can be rounded up by


@dataclass(frozen=True, slots=True)
class Limits:
    """What the user asked for.

    Attributes:
        max_batch_size: Items in one batch at the most.
        max_latency: Seconds from arrival to answer; `inf` promises nothing and refuses nothing.
        max_queue: Items that may wait.
        costs: How items that don't cost the same add up; None if all do.
        sizes: Items of the batches that the model runs, in ascending order, where it was compiled
            for a few: a batch is padded to the next of them. Empty if it runs any.
    """

    max_batch_size: int = 64
    max_latency: float = inf
    max_queue: int = 65_536
    costs: Costs | None = None
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (all(map(is_whole_number, self.sizes)) and are_ascending(self.sizes)):
            msg = "sizes: expected whole numbers of items from 1, each larger than the one before"
            raise ValueError(f"{msg}, such as [1, 2, 4, 8], got {list(self.sizes)}")
        if self.sizes and self.sizes[-1] > LARGEST_BATCH:
            msg = f"sizes: expected at most {LARGEST_BATCH} items"
            raise ValueError(f"{msg}, got {list(self.sizes)}")
        for name in ("max_batch_size", "max_queue"):
            items = getattr(self, name)
            if not (is_whole_number(items) and items >= 1):
                msg = f"{name}: expected at least 1 item, as a whole number, got {items!r}"
                raise ValueError(msg)
        seconds: object = self.max_latency
        if not (is_number(seconds) and seconds > 0):
            msg = "max_latency: expected a positive number of seconds, such as 0.1"
            raise ValueError(f"{msg}, got {self.max_latency!r}")
        if self.costs is not None and self.costs.sizes != self.sizes:
            object.__setattr__(self, "costs", replace(self.costs, sizes=self.sizes))

    def check_change(self, limits: "Limits") -> None:
        """See that jobs which wait under these limits can wait on under others.

        Raises:
            ValueError: Their costs were counted in another way, or not at all.
        """
        before, after = (costs and costs.padded for costs in (self.costs, limits.costs))
        if before != after:
            kept = "none" if before is None else f"costs with padded={before}"
            msg = f"costs: expected {kept}, by which the jobs that wait are counted"
            raise ValueError(f"{msg}, got {limits.costs}: start another dispatcher with these")

    def full(self, peak: PeakSize, cost: float) -> int:
        """Items of a full batch: no more than are worth it by what is known of larger ones.

        Args:
            peak: What is known of those.
            cost: Of each item.
        """
        limit, costs = self.max_batch_size, self.costs
        if peak.limit < limit:
            limit = self.knee(peak.limit)
        if costs is None:
            return limit
        return costs.items_at_most(cost * (1.0 - _ROUNDING), limit, costs.max_batch_cost)

    def knee(self, size: float) -> int:
        """Items of the largest batch up to a finite size; what is between two sizes runs as one."""
        return min(self.max_batch_size, self.padded(int(size)))

    def padded(self, size: int) -> int:
        """Items that a model runs for a batch of `size`: the next allowed size, if there is one."""
        return next_allowed(self.sizes, size)

    def allowed(self, size: float) -> int:
        """The largest allowed size that is not larger; 0 if there is none."""
        return last_allowed(self.sizes, size)

    def up_to(self, size: int) -> "Limits":
        """These limits where no batch holds more items than that."""
        most = min(size, self.max_batch_size)
        return replace(self, max_batch_size=self.allowed(most) or most)


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
    OUTWEIGHED = "outweighed"
    """More jobs are about to come, for which they are held, and they would be late with those."""
    DISPLACED = "displaced"
    """Jobs behind them, which have more time, take their places in the next batch: after this, the
    same queue is asked first."""
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


def terms_by(line: Line, limits: Limits, now: float) -> Terms:
    """What a batch may be that leaves now (seconds), and how long it takes."""
    return Terms(
        now,
        line.fixed,
        line.per_size,
        line.per_cost,
        line.margin,
        limits.max_batch_size,
        inf if limits.costs is None else limits.costs.max_batch_cost,
        line.mean_cost,
    )


class FasterWorker(NamedTuple):
    """The busy worker on which a large batch would end first, where it beats every idle one."""

    factor: float
    """How many times as long a batch takes on it as on the best idle worker; less than 1."""
    released: float
    """When its batch left (seconds)."""
    predicted: float
    """How long that batch is expected to run (seconds)."""
    worth: float
    """How many workers like the best idle one could do the work of all faster ones."""


class Situation(NamedTuple):
    """What is known when a policy is asked about one queue: read once, and never changed.

    Times are instants or durations in seconds. Durations are those of a batch on the worker that it
    would run on: the best idle one, or the one that is expected to be free first if none is idle.

    Attributes:
        now: The present.
        items: Items that wait; at least 1 when a policy is asked to decide.
        requests: Jobs that wait.
        jobs: Those jobs, first the one that leaves first.
        head: The job that leaves first; this and the next two only while one waits.
        oldest: The job that came first.
        soonest: The job that expires first.
        running: The batches that have left and not ended, of all queues.
        limits: What the user asked for, or less if a worker's memory is too small for that, or if
            too many items make the batches fail that they are in.
        idle: Workers that could take a batch now; at least 1 when a policy is asked to decide.
        idle_share: By how many like the best of them what waits could be shared out at once, and
            what the clump still brings; less by what waits in other queues. 0 if none is idle.
        workers: Workers that are alive.
        capacity: How many workers like the one it would run on could do the work of all.
        fixed: Seconds that any batch takes.
        per_item: Seconds that each item adds.
        margin: How much longer than predicted nine batches in ten stay below, relative.
        largest: About the largest batch seen of late (items): beyond it, predictions extrapolate.
        peak: From which size on batches were seen to answer fewer items a second.
        batches: Batches learned from.
        trusted: Whether those are enough to refuse work on their word.
        rate: Accepted jobs in a second, over about the last 16 full batches.
        mean_size: Items that one brings, on average.
        all_items: Items that wait in all queues; at the door, in this one alone.
        all_rate: Items that come in a second to all queues, as far as this one's rate and its share
            of what left of late tell; at the door, to this one alone.
        arrivals: How soon the next is likely to come.
        next_free: When the next busy worker is expected to be free, `now` if that is overdue; `inf`
            if none is busy.
        last_release: When the last batch of any queue left.
        forgotten: When what is known of this queue's batches is outdated: one of their predicted
            durations after the last one left, two after a probe, three after two in a row, at most
            50; when its first job came, before the first.
        untried: Whether no batch of this queue has left.
        next_probe: From when a probe may displace other jobs: probes of all queues share a fiftieth
            of the workers' time; `-inf` before the first.
        timer: The resolution of the driver's timers: shorter holds are not worth arming.
        tick: How soon the policy is asked again, about: the timer's resolution, or the mean gap
            between jobs if that is shorter.
        timers_late: By how much nearly no wake-up has been later than it was asked for.
        per_cost: Seconds that each unit of a batch's cost adds, where items don't cost the same.
        per_size: Seconds that each item adds whatever it costs.
        mean_cost: What batches of late cost for each of their items; `per_item` is for that.
        largest_cost: About the most that one cost for each of its items: beyond it, predictions
            extrapolate.
        full: Items of a full batch of items that cost as much as most.
        pool: How long batches take of all queues together.
        passed_over: For how long the best idle worker has been given no batch.
        faster: A busy worker that is faster than that; None if there is none.
        others: Seconds of a worker that the batches of other keys take that go before that of a job
            at the door; 0 while all that waits can be in time.
    """

    now: float
    items: int
    requests: int
    jobs: JobQueue
    head: Job
    oldest: Job
    soonest: Job
    running: Collection[Batch]
    limits: Limits
    idle: int
    idle_share: float
    workers: int
    capacity: float
    fixed: float
    per_item: float
    margin: float
    largest: float
    peak: PeakSize
    batches: int
    trusted: bool
    rate: float
    mean_size: float
    all_items: int
    all_rate: float
    arrivals: ArrivalRate
    next_free: float
    last_release: float
    forgotten: float
    untried: bool
    next_probe: float
    timer: float
    tick: float
    timers_late: float
    per_cost: float
    per_size: float
    mean_cost: float
    largest_cost: float
    full: int
    pool: Latency
    passed_over: float = 0.0
    faster: FasterWorker | None = None
    others: float = 0.0

    @property
    def newest(self) -> Job:
        """The waiting job that came last."""
        return self.jobs.newest

    @property
    def filled(self) -> bool:
        """Whether the batch of the first job has all that it may have, in items or in cost."""
        limits, groups = self.limits, self.jobs.groups
        if self.items >= limits.max_batch_size:
            return True
        if groups is None or limits.costs is None or limits.costs.max_batch_cost == inf:
            return False
        run = groups.run_of(self.head, self.terms)
        return run.items >= run.limit

    def together(self, size: int) -> int:
        """Items of the batch of the first job, `size` at the most."""
        if self.per_cost and (groups := self.jobs.groups) is not None:
            run = groups.run_of(self.head, self.terms)
            return min(size, run.items, run.limit)
        return min(size, self.items)

    def predict(self, size: float) -> float:
        """Expected seconds for a batch of `size` items, which cost as much as most."""
        if self.limits.sizes:
            size = self.limits.padded(ceil(size))
        return self.fixed + self.per_item * size

    def predict_with(self, job: Job, size: float) -> float:
        """Expected seconds for the batch of a waiting job, with `size` items at the most.

        Where items don't cost the same, those are the jobs that are best run with it.
        """
        groups = self.jobs.groups
        if self.per_cost and groups is not None:
            terms = self.terms
            return self._predict_run(groups.run_of(job, terms), terms, size)
        if self.limits.sizes:
            return self.predict(size)
        return self.fixed + self.per_item * size

    def predict_joined(self, job: Job, size: float) -> float:
        """Expected seconds for the batch of a job that does not wait yet; as `predict_with`."""
        groups = self.jobs.groups
        if self.per_cost and groups is not None:
            terms = self.terms
            return self._predict_run(groups.run_with(job, terms), terms, size)
        return self.predict(size)

    def _predict_run(self, run: Run, terms: Terms, size: float) -> float:
        """Expected seconds for a batch of jobs that are best run together.

        Of items that cost far more than any did it is not known: one has to be tried.
        """
        items = self.limits.padded(ceil(min(size, run.items, run.limit)))
        cost = min(run.cost, EXTRAPOLATION * self.largest_cost)
        return terms.fixed + (terms.per_size + terms.per_cost * cost) * items

    @property
    def terms(self) -> Terms:
        """What a batch may be that leaves now, and how long it takes."""
        return terms_by(self, self.limits, self.now)

    def late_for(self, job: Job) -> float:
        """Seconds that are allowed for late timers before a job's deadline."""
        return min(self.timers_late, LARGEST_SHARE * (job.deadline - job.arrived))

    def up_to(self, size: float) -> "Situation":
        """This situation where no batch holds more items than that, or than its first job has."""
        limit = max(int(size), self.head.size if self.requests else 1)
        limits = self.limits.up_to(limit)
        return self._replace(limits=limits, full=min(self.full, limits.max_batch_size))

    def on(self, faster: FasterWorker) -> "Situation":
        """This situation where the batch runs on a busy worker that is faster, once it is free."""
        return self._replace(
            fixed=self.fixed * faster.factor,
            per_item=self.per_item * faster.factor,
            per_cost=self.per_cost * faster.factor,
            per_size=self.per_size * faster.factor,
            others=self.others * faster.factor,
            capacity=self.capacity * faster.factor,
        )


class Welcome(NamedTuple):
    """Which jobs are let in for certain, until a batch leaves or ends.

    Attributes:
        items: Items that may wait, those of the job included.
        deadline: The earliest deadline that a job may have (seconds).
        until: The last instant at which a job may arrive (seconds).
    """

    items: float
    deadline: float = -inf
    until: float = inf


NONE_WELCOME = Welcome(0.0)


@runtime_checkable
class Policy(Protocol):
    """Decides when a batch leaves and how large it is; asked only while a worker is idle."""

    def decide(self, situation: Situation) -> Decision:
        """What to do with this queue now."""

    def observe(self, batch: BatchRecord) -> None:
        """A batch has ended."""


@runtime_checkable
class Doorkeeper(Protocol):
    """A policy may also turn jobs away at the door, before they wait for nothing."""

    def refuse(self, situation: Situation, job: Job) -> float | None:
        """None to let the job in, or the seconds after which it could be if no other job came."""


@runtime_checkable
class Watcher(Protocol):
    """A policy may also be asked while every worker is busy, to shed jobs that wait in vain."""

    def watch(self, situation: Situation) -> Decision:
        """As `decide`, but no worker is idle: Hold or Shed."""
