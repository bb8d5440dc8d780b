"""How items that don't cost the same add up to what a batch costs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from adaptive_batching.core.allowed import are_ascending, last_allowed, next_allowed
from adaptive_batching.core.job import Job
from adaptive_batching.errors import JobTooLarge
from adaptive_batching.units import LARGEST_COST, is_number

_ROUNDING = 4e-15  # relative; more than `as_run` and a quotient of it can be rounded up by


@dataclass(frozen=True, slots=True)
class Costs:
    """What a batch costs, in the unit of its items' costs: tokens, pixels, nodes.

    A padded batch costs its number of items times the largest of their costs, for each item is
    padded to the longest. Any other batch costs the sum. The cost of a job (`Job.cost`) is what
    that takes: the largest of its items' costs if batches are padded, else their sum.

    Attributes:
        padded: Whether a batch is padded to its largest item.
        max_batch_cost: No batch costs more than that; for models whose memory is the limit.
        pad_costs: Costs to which the model pads its items, in ascending order: an item costs the
            next of them (`rounded`). Empty if it costs what it costs.
        sizes: Items of the batches that the model runs: those of the `Limits` that these costs
            are part of.

    Raises:
        ValueError: `max_batch_cost` is not positive, `pad_costs` are no ascending numbers, or the
            first of these is more than a batch may cost.
    """

    padded: bool = False
    max_batch_cost: float = inf
    pad_costs: tuple[float, ...] = ()
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        most: object = self.max_batch_cost
        if not (is_number(most) and most > 0):
            raise ValueError(f"max_batch_cost: expected a positive number, got {most!r}")
        counted = all(is_number(cost) and cost <= LARGEST_COST for cost in self.pad_costs)
        if not (counted and are_ascending(self.pad_costs)):
            msg = "pad_costs: expected positive numbers, each larger than the one before"
            raise ValueError(f"{msg}, such as [128, 256, 512], got {list(self.pad_costs)}")
        if self.pad_costs and self.pad_costs[0] > self.max_batch_cost:
            msg = f"expected the first to be at most max_batch_cost={self.max_batch_cost:g}"
            raise ValueError(f"pad_costs: {msg}, got {list(self.pad_costs)}")

    def rounded(self, cost: float) -> float:
        """What an item costs once it is padded: the next of `pad_costs`, if there is one."""
        return next_allowed(self.pad_costs, cost)

    def check(self, job: Job) -> None:
        """Refuse a job that can be in no batch.

        Raises:
            JobTooLarge: It costs more than a batch may.
            ValueError: Its cost is negative, no number, or more than its items may cost.
        """
        largest = LARGEST_COST * job.size
        if not 0 <= job.cost <= largest:
            raise ValueError(f"cost: expected a number from 0 to {largest:g}, got {job.cost!r}")
        most = self.max_batch_cost
        if self.as_run(job.size, job.cost, job.cost) > most:
            got = self._told(job.size, job.cost)
            raise JobTooLarge(f"expected a cost of at most max_batch_cost={most:g}, got {got}")

    def together(self, size: int, largest: float, total: float) -> float:
        """What `size` items cost in a batch, by the largest and by the sum of jobs' costs."""
        return size * largest if self.padded else total

    def as_run(self, size: int, largest: float, total: float) -> float:
        """What `size` items cost as the model runs them: with those that fill up an allowed size.

        The arguments are those of `together`.
        """
        cost = size * largest if self.padded else total
        return cost * next_allowed(self.sizes, size) / size if self.sizes else cost

    def _told(self, size: int, cost: float) -> str:
        """What a job costs, and what fills its batch up if that counts."""
        alone, run = self.together(size, cost, cost), next_allowed(self.sizes, size)
        if run == size:
            return f"{alone:g}"
        return f"{alone:g}, which runs as {run} items: {self.as_run(size, cost, cost):g}"

    def fillers_last(self, jobs: Sequence[Job]) -> list[Job]:
        """Put the cheapest jobs last: a model's batch is filled up to an allowed size with these.

        The batch then costs no more than `as_run` says, which takes pads for as dear as the mean,
        if of the items of the last job the one at `filler` is repeated.
        """
        return sorted(jobs, key=lambda job: job.cost / job.size, reverse=True)

    def filler(self, costs: Sequence[float]) -> int:
        """The place of the item of a job that fills up a batch in which the job is the last.

        Args:
            costs: What each of its items costs.

        Returns:
            The index of the cheapest, where costs add up and there are sizes; -1 for the last item.
        """
        if self.padded or not self.sizes:
            return -1
        cheapest = min(costs)
        return -1 if costs[-1] == cheapest else costs.index(cheapest)

    def calls(self, size: int, whole: int) -> list[int]:
        """Items of the calls that run some items of a batch by themselves: one, as a rule.

        Where costs add up, pads may make a few dear items cost more than the whole batch. If that
        has a limit, no call but that of one item is filled up by a larger share than the batch.

        Args:
            size: Items that share no call with the others.
            whole: Items of the batch.
        """
        calls: list[int] = []
        share = inf if self.padded else next_allowed(self.sizes, whole) / whole
        while self.max_batch_cost < inf and next_allowed(self.sizes, size) > share * size > 0:
            calls.append(last_allowed(self.sizes, size) or 1)
            size -= calls[-1]
        return [*calls, size] if size else calls

    def items_at_most(self, cost: float, limit: int, max_cost: float) -> int:
        """Items that cost so much each, as many as a batch may have; 1 if none may.

        Args:
            cost: Of each.
            limit: Items at the most.
            max_cost: What the batch costs at the most.
        """
        if self.as_run(limit, cost, limit * cost) <= max_cost:
            return limit
        most = max(1, int(min(limit, max_cost / cost)))
        return last_allowed(self.sizes, most) or most

    def of_items(self, costs: Sequence[float]) -> float:
        """The cost of one job with items that cost so much each."""
        return max(costs) if self.padded else sum(costs)

    def of_batch(self, costs: Sequence[float]) -> float:
        """What a batch costs whose items cost so much each."""
        return self.as_run(len(costs), max(costs), sum(costs))

    def most_items(self, costs: Sequence[float]) -> int:
        """Items of a request that may be in one batch: all, or so many that any of them fit.

        Args:
            costs: What each of its items costs.

        Raises:
            JobTooLarge: One of them costs more than a batch may.
        """
        largest, most = max(costs), self.max_batch_cost
        if self.of_batch(costs) <= most:
            return len(costs)
        if self.as_run(1, largest, largest) > most:
            msg = f"expected items that cost at most max_batch_cost={most:g} each"
            raise JobTooLarge(f"{msg}, got one that costs {self._told(1, largest)}")
        return self.items_at_most(largest, len(costs), most)

    def at_most(self, cost: float, size: int) -> float:
        """The cost of a job that can't be cut, or that of a full batch where this is less.

        Args:
            cost: What the job costs; see `of_items`.
            size: The job's items.
        """
        share = self.as_run(size, cost, cost)
        if share <= self.max_batch_cost:
            return cost
        return cost * (self.max_batch_cost / share) * (1.0 - _ROUNDING)

    def of_job(self, job: Job) -> float:
        """What this job alone costs, without what fills its batch up to an allowed size."""
        return self.together(job.size, job.cost, job.cost)

    def of_jobs(self, jobs: Iterable[Job]) -> float:
        """What a batch of these jobs costs, as the model runs it; there must be one."""
        size, largest, total = 0, 0.0, 0.0
        for job in jobs:
            size += job.size
            largest = max(largest, job.cost)
            total += job.cost
        return self.as_run(size, largest, total)

    def of_each(self, jobs: Iterable[Job]) -> float:
        """What these jobs cost, each alone."""
        if self.padded:
            return sum([job.size * job.cost for job in jobs])
        return sum([job.cost for job in jobs])
