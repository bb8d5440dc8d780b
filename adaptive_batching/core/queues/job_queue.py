"""The jobs that may share a batch, the most urgent first."""

from collections.abc import Callable, Iterable
from math import inf
from operator import attrgetter
from typing import Any

from adaptive_batching.core.estimators.arrivals import ArrivalRate
from adaptive_batching.core.job import Job
from adaptive_batching.core.queues.cost_groups import CostGroups, Terms
from adaptive_batching.core.queues.job_order import JobOrder


class JobQueue(JobOrder):
    """The most urgent job first, but for smaller ones that fill what a larger one leaves free.

    Args:
        deferral: See `JobOrder`.
    """

    __slots__ = ("_passed", "arrivals")

    groups: CostGroups[Any] | None = None
    """The jobs by what they cost; None where all items cost the same."""

    def __init__(self, deferral: Callable[[], float] = lambda: inf) -> None:
        super().__init__(None, deferral)
        self._passed: set[Job] = set()  # by a batch into which they did not fit
        self.arrivals = ArrivalRate()

    @property
    def item_worth(self) -> float:
        """How many items of the usual cost take as long as one of those that wait."""
        return 1.0

    def unexpired(self, ahead: float, instant: float) -> float:
        """Items ahead of a job that have not expired at an instant.

        At least, for what expires until then is taken to be ahead of it.

        Args:
            ahead: What `ahead_of` says of the job.
            instant: Seconds.
        """
        return ahead - self.expiring(instant) * self.item_worth

    def remove(self, job: Job) -> None:
        """Take a waiting job out, wherever it stands."""
        job.queue = None
        self._passed.discard(job)
        self.left((job,), job.size)

    def take(self, size: int) -> list[Job]:
        """Take the most urgent jobs that fit into `size` items together; return the oldest first.

        Smaller ones fill what a larger one leaves free. None is passed by a second batch, so that
        no job waits longer for those that came after it, and the scan is O(1) amortised for each.
        """
        jobs, passed, in_order = self._jobs, self._passed, self._deadlines is None
        taken: list[Job] = []
        room = size
        for job in jobs if in_order else self.in_turn():
            if not room:
                break
            if job.queue is not self:
                continue
            if job.size <= room:
                job.queue = None
                room -= job.size
                taken.append(job)
                if passed:
                    passed.discard(job)
            elif not taken or job in passed:
                break
            else:
                passed.add(job)
        while jobs and jobs[0].queue is not self:
            jobs.popleft()
        self.left(taken, size - room)
        if not in_order:
            taken.sort(key=attrgetter("arrived"))
        return taken

    def take_together(self, size: int, terms: Terms) -> list[Job]:
        """Take the most urgent jobs; where they don't cost the same, those best run together."""
        return self.take(size)

    def first_behind(self, size: int, terms: Terms) -> Job:
        """The first job that would stay behind a batch of so many items; one must."""
        return self._behind(self, size)

    def _behind(self, jobs: Iterable[Job], size: int) -> Job:
        items = 0
        for job in jobs:
            items += job.size
            if items > size:
                return job
        return self.newest

    def take_expired(self, now: float) -> list[Job]:
        """Take the jobs whose deadline has come."""
        expired = self.expired(now)
        for job in expired:
            self.remove(job)
        return expired
