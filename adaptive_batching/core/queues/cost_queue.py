"""Jobs that may share a batch and don't cost the same."""

from collections.abc import Callable, Iterable, Iterator
from math import inf
from operator import attrgetter

from adaptive_batching.core.costs import Costs
from adaptive_batching.core.job import Job
from adaptive_batching.core.queues.cost_groups import CostGroups, Filling, Terms
from adaptive_batching.core.queues.job_order import JobOrder, by_urgency
from adaptive_batching.core.queues.job_queue import JobQueue


class CostQueue(JobQueue):
    """The most urgent job, and those for which a batch with it takes least of a worker's time.

    Where batches are padded these are neighbours by cost; see `best_runs`.

    Args:
        costs: How costs add up.
        deferral: See `JobOrder`.
    """

    __slots__ = ("_terms", "groups")

    def __init__(self, costs: Costs, deferral: Callable[[], float] = lambda: inf) -> None:
        super().__init__(deferral)
        self.groups: CostGroups[JobOrder] = CostGroups(lambda: JobOrder(self, deferral), costs)
        self._terms: Terms | None = None  # of the newest batch

    @property
    def item_worth(self) -> float:
        """How many items of the usual cost take as long as one of those that wait."""
        terms = self._terms
        if terms is None or not (terms.seconds > 0 and self.items):
            return 1.0
        return self.groups.seconds(terms) / self.items / terms.seconds

    def ahead_of(self, job: Job) -> float:
        """Items of the usual cost that take as long as what is served before a job; see there."""
        return super().ahead_of(job) * self.item_worth

    def append(self, job: Job) -> None:
        """Let a job wait."""
        super().append(job)
        self.groups.came(job).append(job)

    def remove(self, job: Job) -> None:
        """Take a waiting job out, wherever it stands."""
        super().remove(job)
        self._left_groups((job,))

    def take_together(self, size: int, terms: Terms) -> list[Job]:
        """Take the job that leaves first with up to `size` items that are best run with it.

        No job is taken that costs so much that another one of the batch would be late for it, or
        that the batch would cost too much; see `Filling`. The oldest is returned first.
        """
        self._terms = terms
        head, terms = self.head, terms._replace(limit=size)
        filling = Filling(head, size, terms, self.groups.costs, self.groups.run_of(head, terms))
        groups = self.groups.together_with(head, terms)
        head.queue = None
        filling.fill(self._urgent(groups.values()))
        taken = filling.jobs
        for job in taken:
            job.queue = None
        self._left_groups(taken)
        self.left(taken, filling.items)
        taken.sort(key=attrgetter("arrived"))
        return taken

    def first_behind(self, size: int, terms: Terms) -> Job:
        """The first job of those best run together that would stay behind so many of them."""
        return self._behind(
            self._urgent(self.groups.together_with(self.head, terms).values()), size
        )

    def _urgent(self, groups: Iterable[JobOrder]) -> Iterator[Job]:
        in_order = self._deadlines is None  # so the most urgent are those that came first
        return by_urgency(groups, 0.0 if in_order else self._deferral())

    def _left_groups(self, jobs: Iterable[Job]) -> None:
        for group, left in self.groups.left(jobs):
            group.left(left, sum([job.size for job in left]))
            if group.requests:
                group.foremost()  # forgets those at its front that have left
