"""The jobs of one tenant that may share a batch, of two priorities."""

from collections import deque

from adaptive_batching.core.fairness.tenants import Tenant
from adaptive_batching.core.job import Job, Priority

_OVERTAKING = 9  # items of high priority for each normal one, which so has a tenth at least


class TenantQueue:
    """Jobs of high priority go before normal ones, but not for ever.

    A normal job is overtaken by those only that come less than `ageing` seconds after it, and by
    nine times its own items at the most.

    Args:
        queue: In which they wait; who is in another or none has left.
        tenant: Whose they are.
        ageing: Seconds.

    Attributes:
        tenant: Whose they are.
        items: That wait.
    """

    __slots__ = (
        "_aged", "_aged_items", "_ageing", "_high", "_high_items", "_normal", "_overtaken",
        "_queue", "_young", "items", "tenant",
    )  # fmt: skip

    def __init__(self, queue: object, tenant: Tenant, ageing: float) -> None:
        self.tenant = tenant
        self.items = 0
        self._queue = queue
        self._ageing = ageing
        self._high: deque[Job] = deque()
        self._normal: deque[Job] = deque()
        self._young: deque[Job] = deque()  # normal ones that were not yet found to have aged
        self._aged: set[Job] = set()
        self._aged_items = 0
        self._high_items = 0
        self._overtaken = 0  # items that have left while the oldest normal job was first in line

    def __repr__(self) -> str:
        return f"<TenantQueue {self.items} items of {self.tenant!r}>"

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
        """Whose turn it is; somebody must be waiting."""
        high, normal = self._oldest(self._high), self._oldest(self._normal)
        if high is None or normal is None:
            return high or normal  # type: ignore[return-value]  # one of them waits
        if normal.arrived + self._ageing <= high.arrived:
            return normal
        return normal if self._overtaken + high.size > _OVERTAKING * normal.size else high

    def pressing(self, now: float) -> bool:
        """Whether its next job is of high priority, or has waited long enough to be as one."""
        job = self.next
        return job.priority is Priority.HIGH or job.arrived + self._ageing <= now

    def ahead_of(self, job: Job) -> int:
        """Items that would be served before a job that came now."""
        normal_items = self.items - self._high_items
        if job.priority is Priority.NORMAL:
            return normal_items + min(self._high_items, _OVERTAKING * (normal_items + job.size))
        self._age(job.arrived)
        overtaking = min(normal_items, self._high_items // _OVERTAKING)
        return self._high_items + max(self._aged_items, overtaking)

    def append(self, job: Job) -> None:
        """Let a job wait behind those of its priority."""
        self.items += job.size
        if job.priority is Priority.HIGH:
            self._high_items += job.size
            self._high.append(job)
        else:
            self._normal.append(job)
            self._young.append(job)

    def serve(self, job: Job) -> None:
        """Its next job leaves in a batch; for `left` to count it out."""
        self.tenant.served(job.size)
        if job.priority is Priority.NORMAL:
            self._overtaken = 0
        elif self._oldest(self._normal) is not None:
            self._overtaken += job.size

    def left(self, job: Job) -> None:
        """A job waits no more."""
        self.items -= job.size
        if job.priority is Priority.HIGH:
            self._high_items -= job.size
            self._high = self._buried(self._high, self._high_items)
        else:
            if job in self._aged:
                self._aged.remove(job)
                self._aged_items -= job.size
            normal_items = self.items - self._high_items
            self._normal = self._buried(self._normal, normal_items)
            self._young = self._buried(self._young, normal_items)

    def _age(self, now: float) -> None:
        """Find the normal jobs that no later one of high priority goes before; each only once."""
        young = self._young
        while young and young[0].arrived + self._ageing <= now:
            job = young.popleft()
            if job.queue is self._queue:
                self._aged.add(job)
                self._aged_items += job.size

    def _oldest(self, jobs: deque[Job]) -> Job | None:
        while jobs and jobs[0].queue is not self._queue:
            jobs.popleft()
        return jobs[0] if jobs else None

    def _buried(self, jobs: deque[Job], items: int) -> deque[Job]:
        """Without those who have left, once they outnumber the rest."""
        if len(jobs) <= 2 * items + 64:
            return jobs
        return deque(job for job in jobs if job.queue is self._queue)
