"""The jobs that may share a batch, oldest first."""

from collections import deque
from collections.abc import Iterator
from math import inf

from adaptive_batching.core.arrivals import ArrivalRate
from adaptive_batching.core.job import Job


class JobQueue:
    """First in, first out; O(1) amortised for every operation, cancellation included.

    A cancelled job stays in place as a gravestone (`waiting` is False) until it comes to the front
    or the gravestones outnumber the living.
    """

    __slots__ = ("_jobs", "_latest_deadline", "_sorted", "arrivals", "items", "requests")

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._latest_deadline = -inf
        self._sorted = True  # by deadline too, as long as every job has the same max_latency
        self.arrivals = ArrivalRate()
        self.items = 0
        self.requests = 0

    def __repr__(self) -> str:
        return f"<JobQueue {self.requests} jobs, {self.items} items>"

    def __iter__(self) -> Iterator[Job]:
        return (job for job in self._jobs if job.waiting)

    @property
    def head(self) -> Job:
        """The oldest waiting job; there must be one."""
        jobs = self._jobs
        while not jobs[0].waiting:
            jobs.popleft()
        return jobs[0]

    @property
    def newest(self) -> Job:
        """The waiting job that came last; there must be one."""
        jobs = self._jobs
        while not jobs[-1].waiting:
            jobs.pop()
        return jobs[-1]

    @property
    def earliest_deadline(self) -> float:
        """The next instant at which a waiting job expires (seconds); `inf` if none ever does."""
        if not self.requests:
            return inf
        if self._sorted:
            return self.head.deadline
        return min(job.deadline for job in self)

    def append(self, job: Job) -> None:
        """Let a job wait."""
        if job.deadline < self._latest_deadline:
            self._sorted = False
        else:
            self._latest_deadline = job.deadline
        job.waiting = True
        self._jobs.append(job)
        self.items += job.size
        self.requests += 1

    def remove(self, job: Job) -> None:
        """Take a waiting job out, wherever it stands."""
        job.waiting = False
        self.items -= job.size
        self.requests -= 1
        if len(self._jobs) > 2 * self.requests + 64:
            self._jobs = deque(self)
        self._rest()

    def take(self, size: int) -> list[Job]:
        """Take the oldest jobs that fit into `size` items together; in order, none is overtaken."""
        jobs = self._jobs
        taken: list[Job] = []
        room = size
        while jobs:
            job = jobs[0]
            if job.waiting:
                if job.size > room:
                    break
                job.waiting = False
                room -= job.size
                taken.append(job)
            jobs.popleft()
        self.items -= size - room
        self.requests -= len(taken)
        self._rest()
        return taken

    def take_expired(self, now: float) -> list[Job]:
        """Take the jobs whose deadline has come."""
        expired = [job for job in self if job.deadline <= now]
        for job in expired:
            self.remove(job)
        return expired

    def _rest(self) -> None:
        if not self.requests:
            self._jobs.clear()
            self._latest_deadline = -inf
            self._sorted = True
