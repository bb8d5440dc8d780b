"""Jobs of several tenants that may share a batch: the tenant furthest behind fills it."""

from collections.abc import Callable, Hashable, Iterator
from math import ceil, frexp, inf
from operator import attrgetter

from adaptive_batching.core.fairness.tenant_queue import TenantQueue
from adaptive_batching.core.fairness.tenants import Tenants
from adaptive_batching.core.fairness.virtual_time_heap import VirtualTimeHeap
from adaptive_batching.core.job import Job
from adaptive_batching.core.queues.job_queue import JobQueue


class _Depths:
    """What tenants have waiting by their weights, in classes within which it differs twofold."""

    __slots__ = ("_classes",)

    def __init__(self) -> None:
        self._classes: dict[int, tuple[int, float, int]] = {}  # items, weights, tenants

    def change(self, weight: float, before: int, after: int) -> None:
        """A tenant has other items waiting than before."""
        for items, sign in ((before, -1), (after, 1)):
            if items:
                depth = frexp(items / weight)[1]
                waiting, weights, tenants = self._classes.get(depth, (0, 0.0, 0))
                self._classes[depth] = (
                    waiting + sign * items, weights + sign * weight, tenants + sign
                )  # fmt: skip
                if not self._classes[depth][2]:
                    del self._classes[depth]

    def until(self, share: float) -> int:
        """Items that leave until each tenant has had such a share, times its weight; at most."""
        if share <= 0:
            return 0
        return sum(
            min(items, ceil(share * weights) + tenants)
            for items, weights, tenants in self._classes.values()
        )


class FairQueue(JobQueue):
    """Filled by all, emptied in turn: to a policy it is as any other, oldest first.

    The policy says when a batch leaves; the queue says which jobs are in it if not all are.

    Args:
        tenants: The accounts, which say whose turn it is.
    """

    __slots__ = ("_depths", "_queues", "_tenants", "_touched")

    weigh: Callable[[Job], float] = attrgetter("size")
    """What a job counts where its tenant is charged for it."""

    def __init__(self, tenants: Tenants, deferral: Callable[[], float] = lambda: inf) -> None:
        super().__init__(deferral)
        self._tenants = tenants
        self._queues: VirtualTimeHeap[TenantQueue] = VirtualTimeHeap()
        self._depths = _Depths()
        self._touched: set[Hashable] | None = None  # tenants; None as long as it was not asked for

    def ahead_of(self, job: Job) -> float:
        """Items that would be served before a job that came now, if no other came.

        Where they don't cost the same, items of the usual cost that take as long.

        At most, but for one large job of each other tenant, of which an item was counted.

        All others have caught up when its tenant has had what waits for it already, and this job.
        They are taken to have received as little as the hindmost of them, which is true within a
        job of each and what its batch cost; tenants that have about as much waiting are reckoned
        together. So it is no more than twice as many, and those jobs.
        """
        hindmost = self._queues.first()
        if hindmost is None:
            return 0
        tenant = self._tenants.of(job.tenant)
        queue = self._queues.get(job.tenant)
        own, waiting = 0.0, 0
        if queue is not None and queue.waits:
            own, waiting = queue.ahead_of(job) * self._worth(queue), queue.items
        worth = self.item_worth
        level = tenant.received + (own + self.weigh(job)) / tenant.weight
        self._depths.change(tenant.weight, waiting, 0)
        others = self._depths.until((level - hindmost.tenant.received) / worth)
        self._depths.change(tenant.weight, 0, waiting)
        return min(own + others * worth, self.items * worth)

    def unexpired(self, ahead: float, instant: float) -> float:
        """Items ahead of a job that have not expired at an instant.

        Of these as many are taken to expire, in proportion, as of all that wait.
        """
        return ahead * (1.0 - self.expiring(instant) / self.items)

    def _worth(self, queue: TenantQueue) -> float:
        """How many items of the usual cost take as long as one that a tenant has waiting."""
        return 1.0

    def append(self, job: Job) -> None:
        """Let a job wait in its tenant's queue."""
        super().append(job)
        queue = self._queues.get(job.tenant)
        tenant = self._tenants.of(job.tenant)
        if queue is None or not queue.waits:
            queue = TenantQueue(self, tenant, self._tenants.ageing, self._deferral, self.weigh)
        queue.append(job)
        self._depths.change(tenant.weight, queue.items - job.size, queue.items)
        self._tenants.came(tenant, job.size)
        self._queues.add(job.tenant, queue)
        if self._touched is not None:
            self._touched.add(job.tenant)

    def remove(self, job: Job) -> None:
        """Take a waiting job out, wherever it stands."""
        super().remove(job)
        self._count_out(job)

    def take(self, size: int) -> list[Job]:
        """Take the jobs whose turn it is, as many as fit into `size` items together.

        The first one goes however large it is: a policy that spares the size of the first job
        can't know whose turn it is. A later one that does not fit is passed by smaller ones of its
        tenant and priority, but by one batch only. They are returned oldest first.
        """
        taken: list[Job] = []
        smaller: dict[TenantQueue, Iterator[Job]] = {}
        room = size
        while room > 0 and (queue := self._queues.first()) is not None:
            job = None if queue in smaller else queue.next
            if job is None or (taken and job.size > room):
                if job is not None:
                    smaller[queue] = queue.others(job)
                job = self._fitting(smaller[queue], room)
            if job is None:
                break
            room -= job.size
            queue.serve(job)
            job.queue = None
            self._passed.discard(job)
            self._count_out(job)
            taken.append(job)
        self.left(taken, sum(job.size for job in taken))
        taken.sort(key=attrgetter("arrived"))
        return taken

    def _fitting(self, jobs: Iterator[Job], room: int) -> Job | None:
        """The first of some jobs that fits, if none before it was passed by another batch."""
        for job in jobs:
            if job.size <= room:
                return job
            if job in self._passed:
                break
            self._passed.add(job)
        return None

    def changed(self) -> list[tuple[Hashable, TenantQueue | None]]:
        """What tenants have waiting whose jobs came or left since this was last asked.

        None for tenants that have nothing. The first time, what all have.
        """
        names = self._touched
        self._touched = set()
        if names is None:
            return [(name, jobs) for name, jobs in self._queues.members() if jobs.waits]
        every = ((name, self._queues.get(name)) for name in names)
        return [(name, jobs if jobs and jobs.waits else None) for name, jobs in every]

    def _count_out(self, job: Job) -> None:
        queue = self._queues.get(job.tenant)
        assert queue is not None
        queue.left(job)
        if self._touched is not None:
            self._touched.add(job.tenant)
        self._depths.change(queue.tenant.weight, queue.items + job.size, queue.items)
        self._tenants.left(queue.tenant, job.size)
