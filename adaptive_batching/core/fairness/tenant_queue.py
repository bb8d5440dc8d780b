"""The jobs of one tenant that may share a batch, of two priorities."""

from collections import deque
from collections.abc import Callable, Iterator
from math import inf

from adaptive_batching.core.fairness.tenants import Tenant
from adaptive_batching.core.job import Job, Priority
from adaptive_batching.core.queues.job_order import JobOrder

_OVERTAKING = 9  # items of high priority for each normal one, which so has a tenth at least


class TenantQueue:
    """Jobs of high priority go before normal ones, but not for ever; the most urgent of each first.

    A normal job is overtaken by those only that come less than `ageing` seconds after it, and by
    nine times its own items at the most.

    Args:
        queue: In which they wait; a job that is in another or none has left.
        tenant: The tenant that they belong to.
        ageing: Seconds.
        deferral: Of each priority's jobs; see `JobOrder`.

    Attributes:
        tenant: The tenant that they belong to.
    """

    __slots__ = (
        "_aged", "_aged_items", "_ageing", "_high", "_normal", "_overtaken", "_queue", "_young",
        "tenant",
    )  # fmt: skip

    def __init__(
        self,
        queue: object,
        tenant: Tenant,
        ageing: float,
        deferral: Callable[[], float] = lambda: inf,
    ) -> None:
        self.tenant = tenant
        self._queue = queue
        self._ageing = ageing
        self._high = JobOrder(queue, deferral)
        self._normal = JobOrder(queue, deferral)
        self._young: deque[Job] = deque()  # normal ones that were not yet found to have aged
        self._aged: set[Job] = set()
        self._aged_items = 0
        self._overtaken = 0  # items that have left while the oldest normal job was first in line

    def __repr__(self) -> str:
        return f"<TenantQueue {self.items} items of {self.tenant!r}>"

    @property
    def items(self) -> int:
        """Items that wait."""
        return self._high.items + self._normal.items

    @property
    def waits(self) -> bool:
        """Whether anything is left."""
        return self.items > 0

    @property
    def standing(self) -> tuple[float, int]:
        """Its tenant's."""
        return self.tenant.standing

    @property
    def next(self) -> Job:
        """The job whose turn it is; one must be waiting."""
        if not (self._high.requests and self._normal.requests):
            return (self._high if self._high.requests else self._normal).head
        high, oldest = self._high.head, self._normal.oldest
        if oldest.arrived + self._ageing <= high.arrived:
            return oldest
        normal = self._normal.head
        return normal if self._overtaken + high.size > _OVERTAKING * normal.size else high

    def others(self, job: Job) -> Iterator[Job]:
        """Its jobs of the same priority as one of them, in the order in which they leave."""
        return iter(self._of(job))

    @property
    def presses(self) -> float:
        """From when on one of its jobs is of high priority, or has waited long enough to be so."""
        high, normal = self._high, self._normal
        aged = normal.oldest.arrived + self._ageing if normal.requests else inf
        return min(high.oldest.arrived, aged) if high.requests else aged

    @property
    def earliest_deadline(self) -> float:
        """The next instant at which one of its jobs expires (seconds)."""
        return min(self._high.earliest_deadline, self._normal.earliest_deadline)

    @property
    def oldest(self) -> float:
        """When the first of its jobs came (seconds); one must wait."""
        return min(jobs.oldest.arrived for jobs in (self._high, self._normal) if jobs.requests)

    def ahead_of(self, job: Job) -> int:
        """Items that would be served before a job that came now."""
        high, normal = self._high, self._normal
        if job.priority is Priority.NORMAL:
            before = normal.ahead_of(job)
            return before + min(high.items, _OVERTAKING * (before + job.size))
        self._age(job.arrived)
        before = high.ahead_of(job)
        return before + max(self._aged_items, min(normal.items, before // _OVERTAKING))

    def append(self, job: Job) -> None:
        """Let a job wait among those of its priority."""
        self._of(job).enter(job)
        if job.priority is Priority.NORMAL:
            self._young.append(job)

    def serve(self, job: Job) -> None:
        """Its next job leaves in a batch; for `left` to count it out."""
        self.tenant.served(job.size)
        if job.priority is Priority.NORMAL:
            self._overtaken = 0
        elif self._normal.requests:
            self._overtaken += job.size

    def left(self, job: Job) -> None:
        """A job waits no more."""
        self._of(job).left((job,), job.size)
        if job in self._aged:
            self._aged.remove(job)
            self._aged_items -= job.size
        if len(self._young) > 2 * self._normal.requests + 64:
            self._young = deque(each for each in self._young if each.queue is self._queue)

    def _of(self, job: Job) -> JobOrder:
        return self._high if job.priority is Priority.HIGH else self._normal

    def _age(self, now: float) -> None:
        """Find the normal jobs that no later one of high priority goes before; each only once."""
        young = self._young
        while young and young[0].arrived + self._ageing <= now:
            job = young.popleft()
            if job.queue is self._queue:
                self._aged.add(job)
                self._aged_items += job.size
