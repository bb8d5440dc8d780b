"""The jobs that may share a batch, oldest first."""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count, takewhile
from math import inf
from operator import itemgetter

from adaptive_batching.core.estimators.arrivals import ArrivalRate
from adaptive_batching.core.job import Job


class JobQueue:
    """Oldest first, but for smaller jobs that fill what a larger one leaves free.

    Every operation is O(1) amortised, cancellation included.

    Where deadlines come in another order than the jobs, as with a max_latency of each call's own, a
    heap knows the earliest, in O(log n); until then the head does.

    A cancelled job stays in place as a gravestone (its `queue` is another one, or none) until it
    comes to the front or the gravestones outnumber the living.
    """

    __slots__ = (
        "_by_deadline", "_come", "_jobs", "_latest_deadline", "_passed", "arrivals", "items",
        "requests",
    )  # fmt: skip

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._latest_deadline = -inf
        self._by_deadline: list[tuple[float, int, Job]] | None = None  # None: as they came
        self._passed: set[Job] = set()  # by a batch into which they did not fit
        self._come = count()
        self.arrivals = ArrivalRate()
        self.items = 0
        self.requests = 0

    def __repr__(self) -> str:
        return f"<JobQueue {self.requests} jobs, {self.items} items>"

    def __iter__(self) -> Iterator[Job]:
        return (job for job in self._jobs if job.queue is self)

    @property
    def head(self) -> Job:
        """The oldest waiting job; there must be one."""
        jobs = self._jobs
        while jobs[0].queue is not self:
            jobs.popleft()
        return jobs[0]

    @property
    def next(self) -> Job:
        """The job that leaves first; there must be one."""
        return self.head

    @property
    def newest(self) -> Job:
        """The waiting job that came last; there must be one."""
        jobs = self._jobs
        while jobs[-1].queue is not self:
            jobs.pop()
        return jobs[-1]

    @property
    def earliest_deadline(self) -> float:
        """The next instant at which a waiting job expires (seconds); `inf` if none ever does."""
        if not self.requests:
            return inf
        heap = self._by_deadline
        if heap is None:
            return self.head.deadline
        while heap[0][2].queue is not self:
            heappop(heap)
        return heap[0][0]

    def ahead_of(self, job: Job) -> int:
        """Items that would be served before a job that came now, at most."""
        return self.items

    def append(self, job: Job) -> None:
        """Let a job wait."""
        job.queue = self
        self._jobs.append(job)
        self.items += job.size
        self.requests += 1
        if self._by_deadline is None and job.deadline >= self._latest_deadline:
            self._latest_deadline = job.deadline
        else:
            self._enter(job)

    def remove(self, job: Job) -> None:
        """Take a waiting job out, wherever it stands."""
        job.queue = None
        self._passed.discard(job)
        self.items -= job.size
        self.requests -= 1
        self._bury()
        self._rest()

    def take(self, size: int) -> list[Job]:
        """Take the oldest jobs that fit into `size` items together, in their order.

        Smaller ones fill what a larger one leaves free. None is passed by a second batch, so that
        no job waits longer for those that came after it, and the scan is O(1) amortised for each.
        """
        jobs, passed = self._jobs, self._passed
        taken: list[Job] = []
        room = size
        for job in jobs:
            if not room:
                break
            if job.queue is not self:
                continue
            if job.size <= room:
                job.queue = None
                room -= job.size
                taken.append(job)
                passed.discard(job)
            elif not taken or job in passed:
                break
            else:
                passed.add(job)
        while jobs and jobs[0].queue is not self:
            jobs.popleft()
        self.items -= size - room
        self.requests -= len(taken)
        self._bury()
        self._rest()
        return taken

    def take_expired(self, now: float) -> list[Job]:
        """Take the jobs whose deadline has come."""
        heap = self._by_deadline
        if heap is None:
            expired = list(takewhile(lambda job: job.deadline <= now, self))
        else:
            due = []
            while heap and heap[0][0] <= now:
                due.append(heappop(heap))
            expired = [job for _, _, job in sorted(due, key=itemgetter(1)) if job.queue is self]
        for job in expired:
            self.remove(job)
        return expired

    def _enter(self, job: Job) -> None:
        """Into the heap; made anew if there is none, or if who has left outnumbers the rest."""
        heap = self._by_deadline
        if heap is not None and len(heap) <= 2 * self.requests + 64:
            heappush(heap, (job.deadline, next(self._come), job))
        else:
            self._by_deadline = [(each.deadline, next(self._come), each) for each in self]
            heapify(self._by_deadline)

    def _bury(self) -> None:
        """Forget those who have left from the midst, once they outnumber the rest."""
        if len(self._jobs) > 2 * self.requests + 64:
            self._jobs = deque(self)

    def _rest(self) -> None:
        if not self.requests:
            self._jobs.clear()
            self._latest_deadline = -inf
            self._by_deadline = None
