"""Finds the guilty of a failed batch: its members run again, in smaller groups.

One bad item makes a whole batch raise. Halves, and halves of the halves that raise again, find it
in log2(n) more rounds, and the rest get their answers: binary splitting (Hwang 1972), the cheapest
group testing where few are guilty. Where every positive test costs a worker process, three stages
are enough: the batch, groups of about its square root (Dorfman 1943), then each member alone. These
run one at a time, so that however many items are deadly, they have one worker of the pool.

Where a model runs a few sizes, a part may cost more than its whole batch did, by what fills it up.
It runs in as many batches as `Costs.max_batch_cost` asks for, which may be what the workers' memory
turned out to have room for.

A batch runs again as it is where its worker did not begin, and where its worker hung up: that may
have been about the connection. Hung up on for the second time, it is taken for one over which a
worker died.
"""

import enum
from collections.abc import Callable, Hashable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf, isqrt
from operator import attrgetter
from typing import NamedTuple

from adaptive_batching.core.allowed import next_allowed
from adaptive_batching.core.costs import Costs
from adaptive_batching.core.estimators.pace import Latency
from adaptive_batching.core.job import Batch, Job, Outcome, Reason
from adaptive_batching.core.retry.retry_budget import RetryBudget

_REPETITIONS = (Reason.BISECT, Reason.RETRY)
_FATAL = 2  # worker deaths that a job was present at, the last one alone, until it is refused
_NOT_BEGUN = frozenset({Outcome.REFUSED, Outcome.UNSENT})  # has not run, whatever it would do
_REPEATABLE = frozenset(Outcome) - {Outcome.DONE, Outcome.OVERLOADED}
_DEADLY = frozenset({Outcome.LOST, Outcome.UNANSWERED})  # hung up on twice, a batch is suspect
_HALVED = frozenset({Outcome.FAILED, Outcome.OUT_OF_MEMORY})


class Verdict(enum.Enum):
    """What becomes of a member of a failed batch; the values are metric labels."""

    __hash__ = object.__hash__  # as for Reason

    AGAIN = "again"
    """It runs again, in smaller company or as it was."""
    INNOCENT = "innocent"
    """It ran again, and has its answer."""
    GUILTY = "guilty"
    """It ran again, and failed by itself."""
    QUARANTINED = "quarantined"
    """Its workers died, twice or thrice in a row, and the last one ran nothing else."""
    OVER_BUDGET = "over_budget"
    """More runs than may be repeated would have been needed."""
    TOO_LATE = "too_late"
    """Its deadline would have come before the end of another run."""


class Group:
    """Jobs that run again together.

    Attributes:
        jobs: Oldest first.
        deaths: Of workers that ran them, so far.
        reason: Why they run again.
    """

    __slots__ = ("deaths", "jobs", "reason")

    def __init__(self, jobs: list[Job], deaths: int, reason: Reason = Reason.BISECT) -> None:
        self.jobs = jobs
        self.deaths = deaths
        self.reason = reason


class Durations(NamedTuple):
    """How long batches of one key take.

    Attributes:
        line: By their size and cost.
        costs: How items that don't cost the same add up; None if all do.
        sizes: Items of the batches that the model runs; empty if it runs any.
    """

    line: Latency
    costs: Costs | None
    sizes: Sequence[int]

    def seconds(self, jobs: Sequence[Job]) -> float:
        """How long some jobs are expected to run together."""
        size = next_allowed(self.sizes, sum(job.size for job in jobs))
        return self.line.predict(size, self.costs.of_jobs(jobs) if jobs and self.costs else None)

    def usual_batches(self, jobs: Sequence[Job]) -> float:
        """How many batches of late took as long as some jobs do; 1 where all cost the same."""
        if self.costs is None or not self.line.usual > 0:
            return 1.0
        return self.seconds(jobs) / self.line.usual


class Bisection:
    """The members of failed batches that wait to be run again, ahead of all others."""

    def __init__(self) -> None:
        self.budget = RetryBudget()
        self._groups: dict[Group, None] = {}  # the one that has waited longest first
        self._group_of: dict[Job, Group] = {}
        self._by_deadline: list[tuple[float, int, Job]] = []  # some of which have left
        self._come = count()
        self.items = 0
        """Items waiting, in all groups."""
        self.ever = False
        """Whether there ever were any; until then the budget is full, and ends teach nothing."""
        self._at_risk = False  # a worker is: it runs a group over which another has died

    def __repr__(self) -> str:
        return f"<Bisection {len(self._groups)} groups {self.budget!r}>"

    def __iter__(self) -> Iterator[Job]:
        return (job for group in self._groups for job in group.jobs)

    def __len__(self) -> int:
        return len(self._group_of)

    @property
    def earliest_deadline(self) -> float:
        """The next instant at which one of them expires (seconds)."""
        heap = self._by_deadline
        while heap and heap[0][2] not in self._group_of:
            heappop(heap)
        return heap[0][0] if heap else inf

    def judge(
        self,
        batch: Batch,
        jobs: Sequence[Job],
        outcome: Outcome,
        now: float,
        start: float,
        *,
        idempotent: bool,
        durations: Durations,
    ) -> dict[Job, Verdict]:
        """What becomes of the members of a batch that failed.

        Args:
            batch: The failed one.
            jobs: Those of its members that still want an answer.
            outcome: How it ended.
            now: The present (seconds).
            start: When another run can begin, at the earliest (seconds).
            idempotent: Whether running them twice is as good as once.
            durations: Of batches of its key: whether there is time for another run.

        Returns:
            The verdict on each; none where no other run was ever thought of.
        """
        if outcome not in (_REPEATABLE if idempotent else _NOT_BEGUN):
            return {}
        first = batch.reason is not Reason.RETRY and not batch.deaths
        if outcome in _NOT_BEGUN or (outcome is Outcome.UNANSWERED and first):
            return self._once_more(batch, jobs, outcome, now, start, durations)
        deaths = batch.deaths + (outcome in _DEADLY)
        if len(batch.jobs) == 1:
            if outcome is not Outcome.LOST:
                again = batch.reason is Reason.BISECT
                return dict.fromkeys(jobs, Verdict.GUILTY) if again else {}
            if deaths >= _FATAL:
                return dict.fromkeys(jobs, Verdict.QUARANTINED)
        verdicts = dict.fromkeys(jobs, Verdict.TOO_LATE)
        patient = [job for job in jobs if job.deadline > now]
        if durations.costs is not None and outcome is Outcome.OUT_OF_MEMORY:
            parts = _halves(patient, durations.costs)
        else:
            parts = _split(patient, _group_size(len(patient), outcome, deaths))
        groups = [
            Group(punctual, deaths)
            for part in parts
            for fitting in _fitting(part, durations.costs)
            if (punctual := _punctual(fitting, start + durations.seconds(fitting)))
        ]
        return verdicts | self._spend(groups, now, durations)

    def _once_more(
        self,
        batch: Batch,
        jobs: Sequence[Job],
        outcome: Outcome,
        now: float,
        start: float,
        durations: Durations,
    ) -> dict[Job, Verdict]:
        """Run the batch again: as often as there is time if it was refused, otherwise once.

        A job without a deadline is not let wait for a worker that may refuse it for ever.
        """
        if outcome is not Outcome.REFUSED and batch.reason is Reason.RETRY:
            return {}
        verdicts = dict.fromkeys(jobs, Verdict.TOO_LATE)
        patient = [job for job in jobs if job.deadline < inf or start <= now]
        punctual = _punctual(patient, start + durations.seconds(patient))
        if not punctual:
            return verdicts
        group = Group(punctual, batch.deaths, Reason.RETRY)
        return verdicts | self._spend([group], now, durations)

    def _spend(
        self, groups: Sequence[Group], now: float, durations: Durations
    ) -> dict[Job, Verdict]:
        """Let all of the groups run again, or none if that were too many."""
        runs = sum(durations.usual_batches(group.jobs) for group in groups)
        granted = self.budget.spend(runs, now)
        if granted:
            for group in groups:
                self._add(group)
        verdict = Verdict.AGAIN if granted else Verdict.OVER_BUDGET
        return {job: verdict for group in groups for job in group.jobs}

    def take(self, costs_of: Callable[[Hashable], Costs | None]) -> Group | None:
        """Take the group that has waited longest of those that may leave now, if there is one.

        Jobs of it that no longer fit in one batch, as others were cancelled, stay ahead of all.

        Args:
            costs_of: How the costs of jobs of a key add up; None if all cost the same.
        """
        for group in self._groups:
            if not (group.deaths and self._at_risk):
                break
        else:
            return None
        self._at_risk = self._at_risk or group.deaths > 0
        jobs = next(_fitting(group.jobs, costs_of(group.jobs[0].key)))
        for job in jobs:
            self.remove(job)
        return Group(jobs, group.deaths, group.reason)

    def ended(
        self, batch: Batch, outcome: Outcome, failed: Sequence[Job], durations: Durations
    ) -> None:
        """A batch has ended, be it of suspects or of others.

        Args:
            batch: The one that ended.
            outcome: How it did.
            failed: The members that failed with it; others of it may have been answered, by a
                handler that is called for each shape.
            durations: Of batches of its key.
        """
        if batch.reason not in _REPETITIONS:
            self.budget.earn(durations.usual_batches(batch.jobs))
        elif batch.deaths:  # where workers die, a search costs more than runs
            self._at_risk = False
        elif batch.reason is Reason.BISECT and (answered := _answered(batch, outcome, failed)):
            self.budget.answered(durations.usual_batches(answered))

    def take_expired(self, now: float) -> list[Job]:
        """Take the jobs whose deadline has come."""
        expired = []
        while self.earliest_deadline <= now:
            _, _, job = heappop(self._by_deadline)
            self.remove(job)
            expired.append(job)
        return expired

    def remove(self, job: Job) -> bool:
        """Take a job out of its group; False if it is in none."""
        group = self._group_of.get(job)
        if group is None:
            return False
        self._left(job)
        group.jobs.remove(job)
        if not group.jobs:
            del self._groups[group]
        return True

    def _add(self, group: Group) -> None:
        self.ever = True
        self._groups[group] = None
        for job in group.jobs:
            job.queue = self
            self.items += job.size
            self._group_of[job] = group
            heappush(self._by_deadline, (job.deadline, next(self._come), job))
        if len(self._by_deadline) > 2 * len(self._group_of) + 64:
            waiting = [entry for entry in self._by_deadline if entry[2] in self._group_of]
            self._by_deadline = waiting
            heapify(waiting)

    def _left(self, job: Job) -> None:
        job.queue = None
        self.items -= job.size
        del self._group_of[job]


def _punctual(jobs: Sequence[Job], finish: float) -> list[Job]:
    return [job for job in jobs if finish <= job.deadline]


def _fitting(jobs: list[Job], costs: Costs | None) -> Iterator[list[Job]]:
    """The jobs in parts, halved until none costs more than a batch may.

    Not in as few as may be: what was left over would be so small that it tells nothing of memory.
    """
    if costs is None or len(jobs) < 2 or costs.of_jobs(jobs) <= costs.max_batch_cost:
        yield [*jobs]
    else:
        for half in _halves(jobs, costs):
            yield from _fitting(half, costs)


def _group_size(jobs: int, outcome: Outcome, deaths: int) -> int:
    if outcome in _HALVED:
        return (jobs + 1) // 2
    if outcome is Outcome.UNSHARED:
        return 1
    return 1 if deaths >= _FATAL else isqrt(jobs)


def _answered(batch: Batch, outcome: Outcome, failed: Sequence[Job]) -> Sequence[Job]:
    """The members that a run answered; none of a failed one of which nothing more is known."""
    if outcome is Outcome.DONE:
        return batch.jobs
    without = {*failed}
    return [job for job in batch.jobs if job not in without] if failed else ()


def _split(jobs: list[Job], size: int) -> list[list[Job]]:
    return [jobs[begin : begin + size] for begin in range(0, len(jobs), max(1, size))]


def _halves(jobs: Sequence[Job], costs: Costs) -> list[list[Job]]:
    """The costliest jobs, which cost about half of all, and the others; each the oldest first.

    Jobs that all cost nothing count by their items.
    """
    by_cost = sorted(jobs, key=attrgetter("cost"), reverse=True)
    weight = costs.of_job if costs.of_each(jobs) else attrgetter("size")
    half, costliest = sum(map(weight, jobs)) / 2, set[Job]()
    for job in by_cost[: len(jobs) - 1]:
        if half <= 0 and costliest:
            break
        costliest.add(job)
        half -= weight(job)
    parts = [job for job in jobs if job in costliest], [job for job in jobs if job not in costliest]
    return [part for part in parts if part]
