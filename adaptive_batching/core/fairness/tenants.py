"""What each tenant has had of the workers, and so whose turn it is."""

from collections.abc import Hashable, Iterator
from itertools import count

from adaptive_batching.core.costs import Costs
from adaptive_batching.core.estimators.pace import Latency
from adaptive_batching.core.fairness.fairness import Fairness
from adaptive_batching.core.fairness.virtual_time_heap import VirtualTimeHeap
from adaptive_batching.core.job import Batch, Job
from adaptive_batching.core.policy import Limits, terms_by

_REMEMBERED = 1024  # tenants; one that has nothing waiting is forgotten beyond that


class Tenant:
    """A tenant shares the workers with others.

    Attributes:
        name: Of its jobs.
        weight: Its part of them, in proportion to the others'.
        received: Items that it had, by its weight; what it cost to have them in small batches
            included. Where items don't cost the same, the seconds that they took count, as items
            of a full batch.
        items: Its items that wait, in all queues.
        number: Tells it from others with which it is even.
    """

    __slots__ = ("items", "name", "number", "received", "weight")

    def __init__(self, name: Hashable, weight: float, number: int) -> None:
        self.name = name
        self.weight = weight
        self.number = number
        self.received = 0.0
        self.items = 0

    def __repr__(self) -> str:
        return f"<Tenant {self.name!r} received={self.received:g} waiting={self.items}>"

    @property
    def waits(self) -> bool:
        """Whether any of its items waits."""
        return self.items > 0

    @property
    def standing(self) -> tuple[float, int]:
        """What the tenant had, and its number."""
        return self.received, self.number

    def served(self, items: float) -> None:
        """So many of its items leave, or what costs as much."""
        self.received += items / self.weight


class Tenants:
    """The accounts of all tenants that share the workers of one scheduler.

    The one furthest behind its share goes first, as in deficit round robin (Shreedhar and
    Varghese 1996), but job by job instead of in rounds, so that a batch is shared as well: of two
    that have jobs waiting all the time, neither is ever ahead by more than one item of each. One
    that comes back after a pause begins where the hindmost of the others is: what it did not use is
    no credit (start-time fair queueing, Goyal et al. 1996; Sheng et al., OSDI 2024).

    Args:
        fairness: What each may have.
        limits: Of batches, latency and queue.
        latency: How long batches take, whatever their key; None where all items cost the same.

    Attributes:
        ageing: Seconds after which no job of high priority goes before a normal one any more.
    """

    __slots__ = (
        "_idle", "_latency", "_limits", "_numbers", "_rank", "_tenants", "_waiting", "_weights",
        "ageing",
    )  # fmt: skip

    def __init__(self, fairness: Fairness, limits: Limits, latency: Latency | None = None) -> None:
        self.ageing = fairness.head_start(limits)
        self._limits = limits
        self._latency = latency
        self._weights = fairness.weights
        self._tenants: dict[Hashable, Tenant] = {}
        self._idle: dict[Hashable, None] = {}  # tenants with nothing waiting, the longest first
        self._numbers = count()
        self._waiting: VirtualTimeHeap[Tenant] = VirtualTimeHeap()
        self._rank = 0.0  # what the last one that had nothing left waiting had received

    def retune(self, limits: Limits) -> None:
        """Other limits hold from now on; how long high priority counts stays."""
        self._limits = limits

    def of(self, name: Hashable) -> Tenant:
        """The account of a tenant that sends a job; it begins where the hindmost that waits is."""
        tenant = self._tenants.get(name)
        if tenant is None:
            if len(self._tenants) >= _REMEMBERED and self._idle:
                longest = next(iter(self._idle))
                del self._idle[longest], self._tenants[longest]
            self._idle[name] = None
            weight = self._weights.get(name, 1.0)
            tenant = self._tenants[name] = Tenant(name, weight, next(self._numbers))
        if not tenant.items:
            tenant.received = max(tenant.received, self._hindmost())
        return tenant

    def in_turn(self) -> Iterator[Tenant]:
        """The tenants that have something waiting, the one furthest behind first."""
        return self._waiting.in_turn()

    def came(self, tenant: Tenant, items: int) -> None:
        """Some items of a tenant wait."""
        self._idle.pop(tenant.name, None)
        tenant.items += items
        self._waiting.add(tenant.name, tenant)

    def left(self, tenant: Tenant, items: int) -> None:
        """Some items of a tenant have left the queue."""
        tenant.items -= items
        if not tenant.items:
            self._rank = max(self._rank, tenant.received)
            self._idle[tenant.name] = None

    def excess(self, job: Job, queued: int, max_queue: int) -> int:
        """Items that have to leave before a job may wait beside so many; not positive for none.

        No tenant may have more waiting than there is room for all others (dynamic thresholds,
        Choudhury and Hahne 1998), so that one with nothing waiting finds room. A job without a
        tenant is not told apart, and has all of it.
        """
        if job.tenant is None:
            return 0
        own = self.of(job.tenant).items
        return own + job.size - (max_queue - queued)

    def price(self, seconds: float) -> float:
        """How many items a full batch answers in such a part of a worker's time; 0 if unknown."""
        latency = self._latency
        if latency is None:
            return 0.0
        limit = self._limits.full(latency.peak, latency.mean_cost)
        full = latency.predict(limit)
        return seconds / full * limit if full > 0 else 0.0

    def charge(self, batch: Batch, latency: Latency, limits: Limits) -> None:
        """Charge the members with what their batch costs beyond that part of a full one.

        So tenants whose jobs can't share batches have equal parts of the workers' time.

        Args:
            batch: The one that leaves; its members were charged for their part of a full one.
            latency: How long batches of its key take.
            limits: Of its key.
        """
        if limits.costs is not None:
            self._charge_by_cost(batch, latency, limits, limits.costs)
            return
        limit = self._limits.max_batch_size
        full = latency.predict(limit)
        if batch.size >= limit or not full > 0:
            return
        extra = latency.predict(batch.padded_size) / full * limit / batch.size - 1.0
        for job in batch.jobs:
            self.of(job.tenant).served(extra * job.size)

    def _charge_by_cost(self, batch: Batch, latency: Latency, limits: Limits, costs: Costs) -> None:
        terms = terms_by(latency, limits, batch.released)
        shares = [terms.share(job.size, costs.of_job(job)) for job in batch.jobs]
        parts = sum(shares)
        if not parts > 0:
            return
        extra = max(0.0, latency.predict(batch.padded_size, batch.cost) / parts - 1.0)
        each = self.price(extra)
        for job, share in zip(batch.jobs, shares, strict=True):
            self.of(job.tenant).served(each * share)

    def _hindmost(self) -> float:
        """What the tenant that is furthest behind has received."""
        first = self._waiting.first()
        return self._rank if first is None else first.received
