"""The jobs of one tenant that may share a batch, of two priorities."""

from collections import deque
from collections.abc import Callable, Iterator
from math import inf
from operator import attrgetter

from adaptive_batching.core.fairness.tenants import Tenant
from adaptive_batching.core.job import Job, Priority
from adaptive_batching.core.queues.job_order import JobOrder
from adaptive_batching.core.queues.running_sum import RunningSum

_OVERTAKING = 9  # items of high priority for each normal one, which so has a tenth at least


class TenantJobs:
    """Jobs of one tenant, by priority; the most urgent of each first.

    Args:
        queue: In which they wait; a job that is in another or none has left.
        tenant: The tenant that they belong to.
        deferral: Of each priority's jobs; see `JobOrder`.

    Attributes:
        tenant: The tenant that they belong to.
        high: Those of high priority.
        normal: All others.
    """

    __slots__ = ("high", "normal", "tenant")

    def __init__(self, queue: object, tenant: Tenant, deferral: Callable[[], float]) -> None:
        self.tenant = tenant
        self.high = JobOrder(queue, deferral)
        self.normal = JobOrder(queue, deferral)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.items} items of {self.tenant!r}>"

    @property
    def items(self) -> int:
        """Items that wait."""
        return self.high.items + self.normal.items

    @property
    def waits(self) -> bool:
        """Whether anything is left."""
        return self.items > 0

    @property
    def standing(self) -> tuple[float, int]:
        """Its tenant's."""
        return self.tenant.standing

    def of_priority(self, job: Job) -> JobOrder:
        """Those of the same priority as a job."""
        return self.high if job.priority is Priority.HIGH else self.normal

    def append(self, job: Job) -> None:
        """Let a job wait among those of its priority."""
        self.of_priority(job).append(job)

    def left(self, job: Job) -> None:
        """A job waits no more."""
        self.of_priority(job).left((job,), job.size)


class TenantQueue(TenantJobs):
    """Jobs of high priority go before normal ones, but not for ever; the most urgent of each first.

    A normal job is overtaken by those only that come less than `ageing` seconds after it, and by
    nine times its own items at the most.

    Args:
        queue: In which they wait; a job that is in another or none has left.
        tenant: The tenant that they belong to.
        ageing: Seconds.
        deferral: Of each priority's jobs; see `JobOrder`.
        weigh: Says what a job counts where its tenant is charged for it, and where it overtakes.
    """

    __slots__ = (
        "_aged", "_aged_items", "_ageing", "_overtaken", "_queue", "_weigh", "_young", "cost"
    )  # fmt: skip

    def __init__(
        self,
        queue: object,
        tenant: Tenant,
        ageing: float,
        deferral: Callable[[], float] = lambda: inf,
        weigh: Callable[[Job], float] = attrgetter("size"),
    ) -> None:
        super().__init__(queue, tenant, deferral)
        self.cost = RunningSum()
        """What its items cost, where that differs; the queue counts it."""
        self._queue = queue
        self._ageing = ageing
        self._weigh = weigh
        self._young: deque[Job] = deque()  # normal ones that were not yet found to have aged
        self._aged: set[Job] = set()
        self._aged_items = 0
        self._overtaken = 0.0  # what has left while the oldest normal job was first in line

    @property
    def next(self) -> Job:
        """The job whose turn it is; one must be waiting."""
        if not (self.high.requests and self.normal.requests):
            return (self.high if self.high.requests else self.normal).head
        high, oldest = self.high.head, self.normal.oldest
        if oldest.arrived + self._ageing <= high.arrived:
            return oldest
        normal = self.normal.head
        return normal if self._had_enough(normal, high) else high

    def goes_before(self, normal: Job, high: Job) -> bool:
        """Whether a normal job goes before one of high priority."""
        aged = normal.arrived + self._ageing <= high.arrived
        return aged or self._had_enough(normal, high)

    def others(self, job: Job) -> Iterator[Job]:
        """Its jobs of the same priority as one of them, in the order in which they leave."""
        return iter(self.of_priority(job))

    @property
    def presses(self) -> float:
        """From when on one of its jobs is of high priority, or has waited long enough to be so."""
        high, normal = self.high, self.normal
        aged = normal.oldest.arrived + self._ageing if normal.requests else inf
        return min(high.oldest.arrived, aged) if high.requests else aged

    @property
    def earliest_deadline(self) -> float:
        """The next instant at which one of its jobs expires (seconds)."""
        return min(self.high.earliest_deadline, self.normal.earliest_deadline)

    @property
    def oldest(self) -> float:
        """When the first of its jobs came (seconds); one must wait."""
        return min(jobs.oldest.arrived for jobs in (self.high, self.normal) if jobs.requests)

    def ahead_of(self, job: Job) -> float:
        """Items that would be served before a job that came now."""
        high, normal = self.high, self.normal
        if job.priority is Priority.NORMAL:
            before = normal.ahead_of(job)
            return before + min(high.items, _OVERTAKING * (before + job.size))
        self._age(job.arrived)
        before = high.ahead_of(job)
        return before + max(self._aged_items, min(normal.items, before // _OVERTAKING))

    def append(self, job: Job) -> None:
        """Let a job wait among those of its priority."""
        super().append(job)
        if job.priority is Priority.NORMAL:
            self._young.append(job)

    def serve(self, job: Job) -> None:
        """Its next job leaves in a batch; for `left` to count it out."""
        weight = self._weigh(job)
        self.tenant.served(weight)
        if job.priority is Priority.NORMAL:
            self._overtaken = 0.0
        elif self.normal.requests:
            self._overtaken += weight

    def left(self, job: Job) -> None:
        """A job waits no more."""
        super().left(job)
        if job in self._aged:
            self._aged.remove(job)
            self._aged_items -= job.size
        if len(self._young) > 2 * self.normal.requests + 64:
            self._young = deque(each for each in self._young if each.queue is self._queue)

    def _had_enough(self, normal: Job, high: Job) -> bool:
        """Whether a normal job would be overtaken by more than its part."""
        return self._overtaken + self._weigh(high) > _OVERTAKING * self._weigh(normal)

    def _age(self, now: float) -> None:
        """Find the normal jobs that no later one of high priority goes before; each only once."""
        young = self._young
        while young and young[0].arrived + self._ageing <= now:
            job = young.popleft()
            if job.queue is self._queue:
                self._aged.add(job)
                self._aged_items += job.size
