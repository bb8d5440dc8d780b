"""Jobs of several tenants that may share a batch and don't cost the same."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from heapq import heappop, heappush, heapreplace, merge
from math import inf
from operator import attrgetter

from adaptive_batching.core.costs import Costs
from adaptive_batching.core.fairness.fair_queue import FairQueue
from adaptive_batching.core.fairness.tenant_queue import TenantJobs, TenantQueue
from adaptive_batching.core.fairness.tenants import Tenant, Tenants
from adaptive_batching.core.fairness.virtual_time_heap import VirtualTimeHeap
from adaptive_batching.core.job import Job
from adaptive_batching.core.queues.cost_groups import CostGroups, Filling, Terms
from adaptive_batching.core.queues.job_order import JobOrder, by_urgency

_PASSED = 8  # jobs of one tenant that don't fit, after which it has no more in a batch

Group = VirtualTimeHeap[TenantJobs]


class _Turn:
    """The jobs of one tenant that may join a batch, in the order in which they leave.

    Args:
        queue: All that the tenant has waiting.
        parts: Those that may join.
        deferral: Seconds for which a job may be put off for more urgent ones.
    """

    __slots__ = ("_first", "_orders", "_passed", "queue")

    def __init__(self, queue: TenantQueue, parts: Sequence[TenantJobs], deferral: float) -> None:
        self.queue = queue
        orders = [part.high for part in parts], [part.normal for part in parts]
        self._orders = [by_urgency(each, deferral) for each in orders]
        self._first = [next(order, None) for order in self._orders]  # of high priority, of normal
        self._passed = 0

    @property
    def waits(self) -> bool:
        """Whether any job is left that may join."""
        return self._first != [None, None] and self._passed < _PASSED

    def join(self, filling: Filling) -> Job | None:
        """Let its next job join the batch; None if it did not fit and is passed."""
        high, normal = self._first
        which = high is None or (normal is not None and self.queue.goes_before(normal, high))
        job = self._first[which]
        assert job is not None
        self._first[which] = next(self._orders[which], None)
        if filling.add(job):
            return job
        self._passed += 1
        return None


class FairCostQueue(FairQueue):
    """Tenant and priority say which job goes first; then those that are best run together with it.

    These are chosen in turn from the run of costs that shares its batch; see `best_runs`. A tenant
    is charged for the seconds that its jobs take of a worker.

    Args:
        costs: How costs add up.
        tenants: The accounts, which say whose turn it is.
        deferral: See `JobOrder`.
    """

    __slots__ = ("_per_second", "_terms", "groups")

    def __init__(
        self, costs: Costs, tenants: Tenants, deferral: Callable[[], float] = lambda: inf
    ) -> None:
        super().__init__(tenants, deferral)
        self.groups: CostGroups[Group] = CostGroups(Group, costs)
        self._terms: Terms | None = None  # of the newest batch
        self._per_second = 0.0  # items

    def append(self, job: Job) -> None:
        """Let a job wait in its tenant's queue."""
        super().append(job)
        queue = self._queues.get(job.tenant)
        assert queue is not None
        queue.cost.add(self.groups.costs.of_job(job))
        group = self.groups.came(job)
        jobs = group.get(job.tenant)
        if jobs is None or not jobs.waits:
            jobs = TenantJobs(self, self._tenants.of(job.tenant), self._deferral)
        jobs.append(job)
        group.add(job.tenant, jobs)

    def take_together(self, size: int, terms: Terms) -> list[Job]:
        """Take the job whose turn it is with up to `size` items that are best run with it.

        No job is taken that costs so much that another one of the batch would be late for it, or
        that the batch would cost too much; see `Filling`. The oldest is returned first.
        """
        self._terms, self._per_second = terms, self._tenants.price(1.0)
        first = self._queues.first()
        assert first is not None
        head, terms = first.next, terms._replace(limit=size)
        groups = list(self.groups.together_with(head, terms).values())
        filling = Filling(head, size, terms, self.groups.costs, self.groups.run_of(head, terms))
        self._serve(first, head)
        self._fill(filling, groups)
        taken = filling.jobs
        for job in taken:
            self._passed.discard(job)
            self._count_out_of_tenant(job)
        self._left_groups(taken)
        self.left(taken, filling.items)
        taken.sort(key=attrgetter("arrived"))
        return taken

    def first_behind(self, size: int, terms: Terms) -> Job:
        """The job that expires first, as if any might stay behind: its tenant's turn says which."""
        return self.soonest

    def weigh(self, job: Job) -> float:
        """What a job counts: the seconds that it takes in a full batch of its like, in items."""
        if self._terms is None:
            return job.size
        seconds = self._terms.share(job.size, self.groups.costs.of_job(job))
        return seconds * self._per_second or job.size

    @property
    def item_worth(self) -> float:
        """How many items of the usual cost take as long as one of those that wait."""
        if self._terms is None or not (self._per_second and self.items):
            return 1.0
        return self.groups.seconds(self._terms) / self.items * self._per_second or 1.0

    def _worth(self, queue: TenantQueue) -> float:
        if self._terms is None:
            return 1.0
        seconds = self._terms.share(queue.items, max(0.0, queue.cost.value))
        return seconds / queue.items * self._per_second or 1.0

    def _fill(self, filling: Filling, groups: Sequence[Group]) -> None:
        """Let jobs of some groups join a batch, always one of the tenant furthest behind."""
        turns: list[tuple[float, int, _Turn]] = []
        newcomers = _in_turn(groups)
        newcomer = next(newcomers, None)
        deferral = self._deferral()
        while not filling.closed:
            while newcomer is not None and (not turns or newcomer.standing < turns[0][:2]):
                name = newcomer.name
                queue = self._queues.get(name)
                assert queue is not None
                parts = [jobs for group in groups if (jobs := group.get(name)) and jobs.waits]
                heappush(turns, (*newcomer.standing, _Turn(queue, parts, deferral)))
                newcomer = next(newcomers, None)
            if not turns:
                return
            turn = turns[0][2]
            if not turn.waits:
                heappop(turns)
                continue
            job = turn.join(filling)
            if job is not None:
                self._serve(turn.queue, job)
                heapreplace(turns, (*turn.queue.standing, turn))

    def _serve(self, queue: TenantQueue, job: Job) -> None:
        queue.serve(job)
        job.queue = None

    def _count_out(self, job: Job) -> None:
        self._count_out_of_tenant(job)
        self._left_groups((job,))

    def _count_out_of_tenant(self, job: Job) -> None:
        super()._count_out(job)
        queue = self._queues.get(job.tenant)
        assert queue is not None
        queue.cost.add(-self.groups.costs.of_job(job))

    def _left_groups(self, jobs: Iterable[Job]) -> None:
        for group, left in self.groups.left(jobs):
            orders = set[JobOrder]()
            for job in left:
                of_tenant = group.get(job.tenant)
                assert of_tenant is not None
                of_tenant.left(job)
                orders.add(of_tenant.of_priority(job))
            for order in orders:
                if order.requests:
                    order.foremost()  # forgets those at its front that have left


def _in_turn(groups: Sequence[Group]) -> Iterator[Tenant]:
    """The tenants of some groups, each once, the one furthest behind first."""
    for group in groups:
        group.first()  # mends its foremost entries for good
    known = set[Hashable]()
    for jobs in merge(*(group.in_turn() for group in groups), key=attrgetter("standing")):
        if jobs.tenant.name not in known:
            known.add(jobs.tenant.name)
            yield jobs.tenant
