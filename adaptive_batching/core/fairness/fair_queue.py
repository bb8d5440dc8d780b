"""Jobs of several tenants that may share a batch: who is furthest behind his share fills it."""

from collections.abc import Callable
from math import inf
from operator import attrgetter

from adaptive_batching.core.fairness.tenant_queue import TenantQueue
from adaptive_batching.core.fairness.tenants import Tenants
from adaptive_batching.core.fairness.virtual_time_heap import VirtualTimeHeap
from adaptive_batching.core.job import Job
from adaptive_batching.core.queue import JobQueue


class FairQueue(JobQueue):
    """Filled by all, emptied in turn: to a policy it is as any other, oldest first.

    When a batch leaves, the policy says; who is in it is decided here if not all are.

    Args:
        tenants: Whose accounts say whose turn it is.
    """

    __slots__ = ("_queues", "_tenants")

    def __init__(self, tenants: Tenants, deferral: Callable[[], float] = lambda: inf) -> None:
        super().__init__(deferral)
        self._tenants = tenants
        self._queues: VirtualTimeHeap[TenantQueue] = VirtualTimeHeap()

    @property
    def next(self) -> Job:
        """Whose turn it is, who need not be the oldest; there must be one."""
        return self._first.next

    def ahead_of(self, job: Job) -> int:
        """Items that would be served before a job that came now, if nobody else came.

        All others have caught up when its tenant has had what he waits for already, and this job.
        """
        tenant = self._tenants.of(job.tenant)
        queue = self._queues.get(job.tenant)
        own = 0 if queue is None else queue.ahead_of(job)
        level = tenant.received + (own + job.size) / tenant.weight
        others = (each for name, each in self._queues.members() if name != job.tenant)
        return own + sum(min(each.items, each.due_by(level)) for each in others)

    def append(self, job: Job) -> None:
        """Let a job wait in its tenant's queue."""
        super().append(job)
        queue = self._queues.get(job.tenant)
        tenant = self._tenants.of(job.tenant)
        if queue is None or not queue.waits:
            queue = TenantQueue(self, tenant, self._tenants.ageing)
        queue.append(job)
        self._tenants.came(tenant, job.size)
        self._queues.add(job.tenant, queue)

    def remove(self, job: Job) -> None:
        """Take a waiting job out, wherever it stands."""
        super().remove(job)
        self._count_out(job)

    def take(self, size: int) -> list[Job]:
        """Take the jobs whose turn it is until the next does not fit into `size` items together.

        The first one goes however large it is: a policy that spares the size of the oldest job
        can't know who is first. They are returned oldest first.
        """
        taken: list[Job] = []
        room = size
        while room > 0 and (queue := self._queues.first()) is not None:
            job = queue.next
            if taken and job.size > room:
                break
            room -= job.size
            queue.serve(job)
            job.queue = None
            self._count_out(job)
            taken.append(job)
        self._left(taken, sum(job.size for job in taken))
        taken.sort(key=attrgetter("arrived"))
        return taken

    def turn(self, now: float) -> tuple[float, bool]:
        """How early it is asked among other queues, as far as that depends on whose jobs it holds.

        Whoever is furthest behind goes first, and of his jobs those that are pressing.
        """
        queue = self._first
        return queue.tenant.received, not queue.pressing(now)

    @property
    def _first(self) -> TenantQueue:
        queue = self._queues.first()
        assert queue is not None
        return queue

    def _count_out(self, job: Job) -> None:
        queue = self._queues.get(job.tenant)
        assert queue is not None
        queue.left(job)
        self._tenants.left(queue.tenant, job.size)
