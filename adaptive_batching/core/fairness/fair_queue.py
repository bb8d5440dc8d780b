"""Jobs of several tenants that may share a batch: who is furthest behind his share fills it."""

from operator import attrgetter

from adaptive_batching.core.fairness.priorities import Lane
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

    __slots__ = ("_lanes", "_tenants")

    def __init__(self, tenants: Tenants) -> None:
        super().__init__()
        self._tenants = tenants
        self._lanes: VirtualTimeHeap[Lane] = VirtualTimeHeap()

    @property
    def next(self) -> Job:
        """Whose turn it is, who need not be the oldest; there must be one."""
        return self._first.next

    def ahead_of(self, job: Job) -> int:
        """Items that would be served before a job that came now, if nobody else came.

        All others have caught up when its tenant has had what he waits for already, and this job.
        """
        tenant = self._tenants.of(job.tenant)
        lane = self._lanes.get(job.tenant)
        own = 0 if lane is None else lane.ahead_of(job)
        level = tenant.received + (own + job.size) / tenant.weight
        others = (each for name, each in self._lanes.members() if name != job.tenant)
        return own + sum(min(each.items, each.due_by(level)) for each in others)

    def append(self, job: Job) -> None:
        """Let a job wait in its tenant's lane."""
        super().append(job)
        lane = self._lanes.get(job.tenant)
        tenant = self._tenants.of(job.tenant)
        if lane is None or not lane.waits:
            lane = Lane(self, tenant, self._tenants.ageing)
        lane.append(job)
        self._tenants.came(tenant, job.size)
        self._lanes.add(job.tenant, lane)

    def remove(self, job: Job) -> None:
        """Take a waiting job out, wherever it stands."""
        super().remove(job)
        self._left(job)

    def take(self, size: int) -> list[Job]:
        """Take the jobs whose turn it is until the next does not fit into `size` items together.

        The first one goes however large it is: a policy that spares the size of the oldest job
        can't know who is first. They are returned oldest first.
        """
        taken: list[Job] = []
        room = size
        while room > 0 and (lane := self._lanes.first()) is not None:
            job = lane.next
            if taken and job.size > room:
                break
            room -= job.size
            lane.serve(job)
            job.queue = None
            self._left(job)
            taken.append(job)
        self.items -= size - room if taken else 0
        self.requests -= len(taken)
        self._bury()
        self._rest()
        taken.sort(key=attrgetter("arrived"))
        return taken

    def turn(self, now: float) -> tuple[float, bool]:
        """How early it is asked among other queues, as far as that depends on whose jobs it holds.

        Whoever is furthest behind goes first, and of his jobs those that are pressing.
        """
        lane = self._first
        return lane.tenant.received, not lane.pressing(now)

    @property
    def _first(self) -> Lane:
        lane = self._lanes.first()
        assert lane is not None
        return lane

    def _left(self, job: Job) -> None:
        lane = self._lanes.get(job.tenant)
        assert lane is not None
        lane.left(job)
        self._tenants.left(lane.tenant, job.size)
