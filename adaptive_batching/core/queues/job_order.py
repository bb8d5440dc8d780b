"""Jobs that wait, in the order in which they leave."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, merge
from itertools import count, takewhile
from math import inf
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from adaptive_batching.core.job import Job
from adaptive_batching.core.queues.items_by_instant import ItemsByInstant

_GRAVESTONES = 64  # entries kept of jobs that have left, beyond as many as wait
_RECOUNTED_AFTER = 32  # jobs that have left for each that waits, until these are counted anew
_ARRIVAL, _DEADLINE = attrgetter("arrived"), attrgetter("deadline")

E = TypeVar("E", bound=tuple[Any, ...])


def _ascending(heap: list[E]) -> Iterator[E]:
    """The entries of a heap in order; the first n cost O(n log n), however many there are."""
    ahead = [(entry, 0) for entry in heap[:1]]
    while ahead:
        entry, at = heappop(ahead)
        yield entry
        for child in (2 * at + 1, 2 * at + 2):
            if child < len(heap):
                heappush(ahead, (heap[child], child))


def by_urgency(orders: Iterable[Iterable[Job]], deferral: float) -> Iterator[Job]:
    """The jobs of several orders, the most urgent first; see `JobOrder`.

    Args:
        orders: The most urgent job of each first.
        deferral: Seconds for which a job may be put off for more urgent ones; 0 for the order of
            arrival.
    """
    if not deferral:
        return merge(*orders, key=_ARRIVAL)
    return merge(*orders, key=lambda job: min(job.deadline, job.arrived + deferral))


class _Deadlines:
    """The deadlines of a queue's jobs, where they come in another order than the jobs.

    Args:
        queue: In which the jobs wait; one that is in another or none has left.
        jobs: All that have come, the oldest first; one of them waits at least.
    """

    __slots__ = ("_come", "_queue", "heap")

    def __init__(self, queue: object, jobs: Iterable[Job]) -> None:
        self._queue = queue
        self._come = count()
        self._begin(jobs)

    def _begin(self, jobs: Iterable[Job]) -> None:
        """Know only those of some jobs, the oldest first, that wait."""
        waiting = (job for job in jobs if job.queue is self._queue)
        self.heap = [(job.deadline, next(self._come), job) for job in waiting]
        heapify(self.heap)

    def __iter__(self) -> Iterator[Job]:
        """The waiting jobs, the earliest deadline first."""
        return (job for _, _, job in _ascending(self.heap) if job.queue is self._queue)

    @property
    def soonest(self) -> Job:
        """The waiting job that expires first; there must be one."""
        heap = self.heap
        while heap[0][2].queue is not self._queue:
            heappop(heap)
        return heap[0][2]

    def enter(self, job: Job) -> None:
        """A job has come."""
        heappush(self.heap, (job.deadline, next(self._come), job))

    def left(self, requests: int) -> None:
        """So many still wait; of the others no more than that are kept."""
        if len(self.heap) > 2 * requests + _GRAVESTONES:
            self._begin(job for _, _, job in sorted(self.heap, key=itemgetter(1)))

    def expired(self, now: float) -> list[Job]:
        """The jobs whose deadline has come, the oldest first; for `left` to count them out."""
        due = sorted(
            takewhile(lambda entry: entry[0] <= now, _ascending(self.heap)), key=itemgetter(1)
        )
        return [job for _, _, job in due if job.queue is self._queue]


class JobOrder:
    """The most urgent job first.

    A job is urgent from `min(deadline, arrived + deferral)` on. So the earliest deadline goes
    first, which answers every job in time if that can be done at all (Jackson 1955), but a job is
    put off for `deferral` at the most, whatever its own deadline.

    While deadlines come in the order of the jobs, as with one max_latency for all, the order of
    leaving is that of arrival, and every operation is O(1) amortised, cancellation included. Where
    they don't, each takes O(log n).

    A cancelled job stays in place as a gravestone (its `queue` is another one, or none) until it
    comes to the front or the gravestones outnumber the living.

    Args:
        queue: In which the jobs wait; one that is in another or none has left. None for this one.
        deferral: Says for how many seconds a job may be put off for more urgent ones; asked anew
            each time, for it follows what is learned of the batches.

    Attributes:
        items: That wait.
        requests: Jobs that wait.
    """

    __slots__ = (
        "_counts", "_deadlines", "_deferral", "_jobs", "_latest_deadline", "_left", "_queue",
        "items", "requests",
    )  # fmt: skip

    def __init__(
        self, queue: object | None = None, deferral: Callable[[], float] = lambda: inf
    ) -> None:
        self._queue = self if queue is None else queue
        self._deferral = deferral
        self._jobs: deque[Job] = deque()
        self._latest_deadline = -inf
        self._deadlines: _Deadlines | None = None  # None: in the order of the jobs
        self._counts: dict[Callable[[Job], float], ItemsByInstant] = {}  # by what, once asked
        self._left = 0  # jobs, since the counts were begun
        self.items = 0
        self.requests = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.requests} jobs, {self.items} items>"

    def __iter__(self) -> Iterator[Job]:
        """The waiting jobs in the order in which they leave."""
        return (job for job in self.in_turn() if job.queue is self._queue)

    @property
    def head(self) -> Job:
        """The job that leaves first; there must be one."""
        return self.foremost()[0]

    @property
    def oldest(self) -> Job:
        """The waiting job that came first; there must be one."""
        return self.foremost()[1]

    @property
    def soonest(self) -> Job:
        """The waiting job that expires first; there must be one."""
        return self.foremost()[2]

    def foremost(self) -> tuple[Job, Job, Job]:
        """The jobs that leave first, came first and expire first, found at once."""
        jobs, queue = self._jobs, self._queue
        while (oldest := jobs[0]).queue is not queue:
            jobs.popleft()
        if self._deadlines is None:
            return oldest, oldest, oldest
        soonest = self._deadlines.soonest
        put_off = oldest.arrived + self._deferral() < soonest.deadline
        return oldest if put_off else soonest, oldest, soonest

    @property
    def newest(self) -> Job:
        """The waiting job that came last; there must be one."""
        jobs = self._jobs
        while jobs[-1].queue is not self._queue:
            jobs.pop()
        return jobs[-1]

    @property
    def earliest_deadline(self) -> float:
        """The next instant at which a waiting job expires (seconds); `inf` if none ever does."""
        return self.soonest.deadline if self.requests else inf

    def by_deadline(self) -> Iterator[Job]:
        """The waiting jobs, the earliest deadline first."""
        return iter(self if self._deadlines is None else self._deadlines)

    def ahead_of(self, job: Job) -> float:
        """Items that would be served before a job that came now, at most.

        At most twice as many as really would, and those that expire at about the same instant.
        """
        if self._deadlines is None:
            if not self.requests or job.deadline >= self._latest_deadline:
                return self.items
            self._deadlines = _Deadlines(self._queue, self._jobs)
        deferral = self._deferral()
        if job.arrived + deferral <= job.deadline:
            return self.items
        ahead = self.expiring(job.deadline) + self._until(job.deadline - deferral, _ARRIVAL)
        return min(ahead, self.items)

    def expiring(self, instant: float) -> int:
        """Items of the waiting jobs that expire until an instant (seconds)."""
        return self._until(instant, _DEADLINE)

    def _until(self, instant: float, of: Callable[[Job], float]) -> int:
        """Items of the jobs whose arrival or deadline has come by then; counted once asked for."""
        if not self.requests:
            return 0
        counts = self._counts.get(of)
        if counts is None:
            jobs = [job for job in self._jobs if job.queue is self._queue]
            origin = min([job.arrived for job in jobs])
            counts = ItemsByInstant(origin, [(of(job), job.size) for job in jobs])
            self._counts[of] = counts
        return counts.until(instant)

    def append(self, job: Job) -> None:
        """Let a job wait."""
        job.queue = self._queue
        self._jobs.append(job)
        self.items += job.size
        self.requests += 1
        for of, counts in self._counts.items():
            counts.add(of(job), job.size)
        if self._deadlines is not None:
            self._deadlines.enter(job)
        elif job.deadline >= self._latest_deadline:
            self._latest_deadline = job.deadline
        else:
            self._deadlines = _Deadlines(self._queue, self._jobs)

    def expired(self, now: float) -> list[Job]:
        """The jobs whose deadline has come, the oldest first; for `left` to count them out."""
        if self._deadlines is None:
            return list(takewhile(lambda job: job.deadline <= now, self))
        return self._deadlines.expired(now)

    def in_turn(self) -> Iterable[Job]:
        """The jobs in the order in which they leave, and some that have left."""
        return self._jobs if self._deadlines is None else self._by_urgency(self._deadlines.heap)

    def _by_urgency(self, heap: list[tuple[float, int, Job]]) -> Iterator[Job]:
        """By deadline, but first those that have been put off for long enough."""
        deferral = self._deferral()
        arrivals = iter(self._jobs)
        oldest = next(arrivals, None)
        for deadline, _, job in _ascending(heap):
            while oldest is not None and oldest.arrived + deferral < deadline:
                if oldest.arrived + deferral < oldest.deadline:  # or it has had its turn
                    yield oldest
                oldest = next(arrivals, None)
            if deadline <= job.arrived + deferral:
                yield job

    def left(self, jobs: Sequence[Job], items: int) -> None:
        """Count out jobs of so many items; forget those in the midst that outnumber the rest."""
        self.items -= items
        self.requests -= len(jobs)
        if not self.requests:
            self._jobs.clear()
            self._latest_deadline = -inf
            self._deadlines = None
            if self._counts:
                self._forget_counts()
            return
        if self._counts:
            self._uncount(jobs)
        if self._deadlines is not None:
            self._deadlines.left(self.requests)
        if len(self._jobs) > 2 * self.requests + _GRAVESTONES:
            self._jobs = deque(job for job in self._jobs if job.queue is self._queue)

    def _uncount(self, jobs: Sequence[Job]) -> None:
        """Jobs have left; the farther counts are from their origin, the coarser they are."""
        for of, counts in self._counts.items():
            for job in jobs:
                counts.add(of(job), -job.size)
        self._left += len(jobs)
        if self._left > _RECOUNTED_AFTER * self.requests + _GRAVESTONES:
            self._forget_counts()

    def _forget_counts(self) -> None:
        self._counts.clear()
        self._left = 0
