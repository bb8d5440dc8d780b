"""In which order the queues of several batch keys are served where tenants share the workers."""

from collections.abc import Hashable, Iterator
from typing import cast

from adaptive_batching.core.fairness.fair_queue import FairQueue
from adaptive_batching.core.fairness.tenant_queue import TenantQueue
from adaptive_batching.core.fairness.tenants import Tenants
from adaptive_batching.core.queues.key_order import Line, QueueOrder
from adaptive_batching.core.queues.key_queue import KeyQueue


class _Order:
    """The queues in which jobs of one tenant wait: first those in which one is pressing.

    A queue is found to be pressing, and weighed, when its tenant's turn has come: once for each
    time that its jobs there have changed.
    """

    __slots__ = ("_calm", "_presses", "_pressing", "_unweighed", "_worths")

    def __init__(self) -> None:
        self._calm = QueueOrder()
        self._pressing = QueueOrder()
        self._presses = Line()  # from when on those that are calm do
        self._unweighed: dict[KeyQueue, None] = {}
        self._worths: Line | None = None  # by which the others were weighed

    def __len__(self) -> int:
        return len(self._calm) + len(self._pressing)

    def put(self, view: KeyQueue, jobs: TenantQueue) -> None:
        """The tenant has other jobs waiting in a queue than before."""
        self._pressing.drop(view)
        self._calm.put(view, jobs.earliest_deadline, jobs.oldest)
        self._presses.put(view, jobs.presses)
        self._unweighed[view] = None

    def drop(self, view: KeyQueue) -> None:
        """No job of the tenant waits there any more."""
        self._presses.drop(view)
        self._calm.drop(view)
        self._pressing.drop(view)
        self._unweighed.pop(view, None)

    def in_turn(self, now: float, deferral: float, worths: Line | None) -> Iterator[KeyQueue]:
        """The queues, the one to be served first at first."""
        while self._presses.earliest <= now:
            view = self._presses.first
            self._presses.drop(view)
            self._calm.move(view, self._pressing)
        if worths is not None:
            self._weigh(worths)
        weighed = worths is not None
        yield from self._pressing.in_turn(deferral, weighed=weighed)
        yield from self._calm.in_turn(deferral, weighed=weighed)

    def _weigh(self, worths: Line) -> None:
        orders = self._calm, self._pressing
        if self._worths is not worths:
            self._worths = worths
            self._unweighed = {view: None for order in orders for view in order.by_deadline.entries}
            for order in orders:
                order.by_worth = Line()
        for view in self._unweighed:
            order = self._calm if view in self._calm else self._pressing
            order.by_worth.put(view, worths.entries[view][0])
        self._unweighed.clear()


class TenantOrders:
    """First the queues of the tenant that is furthest behind, however urgent others are.

    Args:
        tenants: The accounts, which say which tenant that is.
    """

    __slots__ = ("_orders", "_tenants")

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._orders: dict[Hashable, _Order] = {}

    def place(self, view: KeyQueue) -> None:
        """Jobs have come to a queue or left it."""
        for name, jobs in cast("FairQueue", view.queue).changed():
            if jobs is not None:
                self._orders.setdefault(name, _Order()).put(view, jobs)
            elif name in self._orders:
                self._orders[name].drop(view)
                if not self._orders[name]:
                    del self._orders[name]

    def in_turn(self, now: float, deferral: float, worths: Line | None) -> Iterator[KeyQueue]:
        """The queues, the one to be served first at first.

        Args:
            now: The present (seconds).
            deferral: Seconds for which a job may be put off for more urgent ones.
            worths: Of all queues, if those of a tenant are served by what they are worth.
        """
        asked = set[KeyQueue]()
        for tenant in self._tenants.in_turn():
            for view in self._orders[tenant.name].in_turn(now, deferral, worths):
                if view not in asked:
                    asked.add(view)
                    yield view
