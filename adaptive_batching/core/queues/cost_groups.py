"""Jobs that wait, by what they cost, and which of these groups are best run together."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import accumulate, chain, islice
from math import frexp, inf
from typing import Generic, NamedTuple, TypeVar

from adaptive_batching.core.allowed import next_allowed
from adaptive_batching.core.costs import Costs
from adaptive_batching.core.job import Job
from adaptive_batching.core.queues.cost_runs import Run, best_runs
from adaptive_batching.core.queues.running_sum import RunningSum

_FINE = 8  # groups in two doublings of the cost: padding within one is less than a quarter
_FREE = -1_000_000  # the group of jobs that cost nothing, and of all that are not padded
_MISSES = 32  # jobs that don't fit, after which a batch leaves with those that do

J = TypeVar("J")


class Terms(NamedTuple):
    """What a batch may be, and how long it takes.

    Attributes:
        now: The present (seconds).
        fixed: Seconds that any batch takes.
        per_size: Seconds that each item adds, whatever it costs.
        per_cost: Seconds that each unit of the batch's cost adds.
        margin: How much longer than that it may take, relative.
        limit: Items at the most.
        max_cost: What a batch costs at the most.
        usual: What an item costs on average.
    """

    now: float
    fixed: float
    per_size: float
    per_cost: float
    margin: float
    limit: int
    max_cost: float
    usual: float

    @property
    def seconds(self) -> float:
        """Seconds that an item of the usual cost takes of a full batch of its like."""
        return self.share(1, self.usual)

    def share(self, size: int, cost: float) -> float:
        """Seconds that items which cost so much together take of a full batch of their like."""
        part = max(size / self.limit, cost / self.max_cost)
        return self.fixed * part + self.per_size * size + self.per_cost * cost


class _Group(Generic[J]):
    """Jobs that cost about the same.

    Attributes:
        jobs: The jobs.
        requests: How many these are.
        items: Of all of them.
        largest: The largest cost of a job since the group was last empty.
    """

    __slots__ = ("items", "jobs", "largest", "requests")

    def __init__(self, jobs: J) -> None:
        self.jobs = jobs
        self.requests = 0
        self.items = 0
        self.largest = 0.0


class CostGroups(Generic[J]):
    """Counts the jobs that wait in groups of about the same cost, four for each doubling.

    Where batches are not padded, any jobs are as good together as any others: all are one group.

    Args:
        costs: How these add up.
        empty: Makes what holds the jobs of a group.
    """

    __slots__ = ("_divided", "_empty", "_groups", "_items", "_padding", "_runs", "_total", "costs")

    def __init__(self, empty: Callable[[], J], costs: Costs) -> None:
        self.costs = costs
        """How costs add up; how much a batch may cost, `Terms` say."""
        self._empty = empty
        self._groups: dict[int, _Group[J]] = {}
        self._items, self._total = 0, RunningSum()  # of all groups
        self._divided: object = None  # the terms for which the runs are the best
        self._runs: dict[int, Run] = {}  # by group
        self._padding = 1.0  # times what jobs cost by themselves, in the runs

    def came(self, job: Job) -> J:
        """Count a job that waits; returns what holds the jobs of its group."""
        number = self.number(job)
        group = self._groups.get(number)
        if group is None:
            group = self._groups[number] = _Group(self._empty())
        cost = self.costs.of_job(job)
        group.requests += 1
        group.items += job.size
        self._items += job.size
        self._total.add(cost)
        group.largest = max(group.largest, job.cost)
        self._divided = None
        return group.jobs

    def left(self, jobs: Iterable[Job]) -> list[tuple[J, list[Job]]]:
        """Count out jobs that wait no more; returns what held them, with the jobs of each group."""
        by_number: dict[int, list[Job]] = {}
        for job in jobs:
            by_number.setdefault(self.number(job), []).append(job)
        self._divided = None
        return [(self._count_out(number, left), left) for number, left in by_number.items()]

    def _count_out(self, number: int, jobs: list[Job]) -> J:
        group = self._groups[number]
        items, cost = sum([job.size for job in jobs]), self.costs.of_each(jobs)
        group.requests -= len(jobs)
        group.items -= items
        self._items -= items
        self._total.add(-cost)
        if not group.requests:
            del self._groups[number]
        if not self._groups:
            self._total = RunningSum()  # what was rounded away is not carried on for ever
        return group.jobs

    def run_in(self, sizes: tuple[int, ...]) -> None:
        """Batches are filled up to other sizes from now on; see `Costs`."""
        self.costs = replace(self.costs, sizes=sizes)
        self._divided = None

    @property
    def cost(self) -> float:
        """What all that waits costs, without padding."""
        return max(0.0, self._total.value)

    def seconds(self, terms: Terms) -> float:
        """What all that waits takes in full batches, padded as in the newest division."""
        return terms.share(self._items, self.cost * self._padding)

    def run_of(self, job: Job, terms: Terms) -> Run:
        """The jobs that are best run together with one of those that wait."""
        self._divide(terms)
        return self._runs[self.number(job)]

    def run_with(self, job: Job, terms: Terms) -> Run:
        """The jobs that are best run together with one that does not wait yet, and that one.

        By the newest division, even if some of its jobs have left: this is asked of every job. One
        beside which none that waits costs about the same is taken to run alone.
        """
        number, items, cost = self.number(job), job.size, self._per_item(job)
        if number in self._groups and number in self._runs:
            run = self._runs[number]
            items += run.items
            if self.costs.padded:
                cost = max(run.cost, cost)
            else:
                cost = (run.items * run.cost + job.cost) / items
        return self._run(items, cost, terms)

    def together_with(self, job: Job, terms: Terms) -> dict[int, J]:
        """What holds the jobs that are best run together with one that waits, by group."""
        run = self.run_of(job, terms)
        numbers = sorted(self._groups)[run.first : run.last + 1]
        return {number: self._groups[number].jobs for number in numbers}

    def _per_item(self, job: Job) -> float:
        return job.cost if self.costs.padded else job.cost / job.size

    def number(self, job: Job) -> int:
        """The number of the group of a job: quarters of an octave."""
        if not self.costs.padded or job.cost <= 0:
            return _FREE
        fraction, exponent = frexp(job.cost)
        return exponent * _FINE // 2 + int((fraction - 0.5) * _FINE)

    def _divide(self, terms: Terms) -> None:
        """Find the best division for these terms, if that is not the one that is known."""
        dividing = terms[1:4] + terms[5:7]
        if self._divided == dividing:
            return
        self._divided = dividing
        numbers = sorted(self._groups)
        groups = [self._groups[number] for number in numbers]
        if not self.costs.padded:
            (group,) = groups
            mean_cost = self.cost / self._items
            self._runs = {_FREE: self._run(group.items, mean_cost, terms)}
            return
        if terms.max_cost == inf:
            limits = [terms.limit] * len(groups)
        else:
            limits = [self._limit(group.largest, terms) for group in groups]
        sizes = [(group.largest, group.items) for group in groups]
        runs = best_runs(sizes, terms.fixed, terms.per_cost, limits)
        self._runs = {number: run for run in runs for number in numbers[run.first : run.last + 1]}
        cost = self.cost
        self._padding = sum(run.items * run.cost for run in runs) / cost if cost else 1.0

    def _run(self, items: int, cost: float, terms: Terms) -> Run:
        """One group that is best run by itself."""
        return Run(0, 0, items, cost, self._limit(cost, terms))

    def _limit(self, cost: float, terms: Terms) -> int:
        return self.costs.items_at_most(cost, terms.limit, terms.max_cost)


class Filling:
    """A batch to which jobs are added, as long as costs make none of its members late.

    How many jobs leave, the policy says; costs only say which. So the deadline of a member counts
    unless as many jobs would miss it that cost what it does, or what jobs cost on average where
    batches are not padded: such a batch would leave without costs, too.

    Args:
        head: Its first job, whatever it costs.
        size: Items at the most.
        terms: What the batch may cost, and how long it takes.
        costs: How the costs of its members add up.
        run: The jobs that are best run with the first one.
    """

    __slots__ = (
        "_costs", "_due", "_kept", "_kept_per_cost", "_largest", "_misses", "_size", "_terms",
        "_total", "items", "jobs",
    )  # fmt: skip

    def __init__(self, head: Job, size: int, terms: Terms, costs: Costs, run: Run) -> None:
        self.jobs = [head]
        """Its members."""
        self.items = head.size
        """Of its members."""
        self._size = size
        self._terms = terms
        self._costs = costs
        self._largest = self._total = head.cost
        self._misses = 0
        many = max(1, min(size, run.items, run.limit))
        self._kept = self._ends(many, costs.as_run(many, 0.0, many * run.cost))
        per_cost = terms.per_cost * (1.0 + terms.margin)
        self._kept_per_cost = per_cost * costs.as_run(many, 1.0, 0.0)
        self._due = self._due_of(head)

    @property
    def closed(self) -> bool:
        """Whether it is full, or too many jobs that might have joined it could not."""
        return self.items >= self._size or self._misses >= _MISSES

    def fill(self, jobs: Iterator[Job]) -> None:
        """Let jobs join, those that come first before the others, until it is closed.

        What a batch takes, and when it has to end, only grow tighter with each job: so the jobs
        before the first that does not fit are found by bisection.
        """
        first = list(islice(jobs, max(0, self._size - self.items)))
        items = list(accumulate([job.size for job in first], initial=self.items))
        costs = [job.cost for job in first]
        largest = list(accumulate(costs, max, initial=self._largest))
        total = list(accumulate(costs, initial=self._total))
        due = list(accumulate(map(self._due_of, first), min, initial=self._due))

        def exceeds(number: int) -> bool:
            return not self._fits(items[number], largest[number], total[number], due[number])

        fits = bisect_left(range(1, len(items)), x=True, key=exceeds)
        self.jobs += first[:fits]
        self.items, self._largest = items[fits], largest[fits]
        self._total, self._due = total[fits], due[fits]
        for job in chain(first[fits:], jobs):
            if self.closed:
                break
            self.add(job)

    def add(self, job: Job) -> bool:
        """Let a job join if it fits and makes no member late; returns whether it did."""
        items = self.items + job.size
        largest, total = max(self._largest, job.cost), self._total + job.cost
        due = min(self._due, self._due_of(job))
        if not self._fits(items, largest, total, due):
            self._misses += 1
            return False
        self.jobs.append(job)
        self.items, self._largest, self._total, self._due = items, largest, total, due
        return True

    def _due_of(self, job: Job) -> float:
        """When the batch has to end for a job; `inf` if its deadline does not count."""
        deadline = job.deadline
        return deadline if self._kept + self._kept_per_cost * job.cost <= deadline else inf

    def _fits(self, items: int, largest: float, total: float, due: float) -> bool:
        """Whether a batch like that may leave, and ends by then."""
        if items > self._size:
            return False
        cost = self._costs.as_run(items, largest, total)
        return cost <= self._terms.max_cost and self._ends(items, cost) <= due

    def _ends(self, items: int, cost: float) -> float:
        """When the batch would end, if it is as slow as nine in ten are at the most."""
        now, fixed, per_size, per_cost, margin, *_ = self._terms
        ran = next_allowed(self._costs.sizes, items)
        return now + (fixed + per_size * ran + per_cost * cost) * (1.0 + margin)
