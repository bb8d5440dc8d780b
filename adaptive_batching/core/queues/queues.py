"""All that waits, by batch key, and which key is next in O(log n) of the keys."""

from collections.abc import Hashable, Iterator
from itertools import chain, count
from math import inf, log
from typing import Protocol, runtime_checkable

from adaptive_batching.core.estimators.delays import TimerLateness
from adaptive_batching.core.estimators.evidence import LONG_MEMORY
from adaptive_batching.core.estimators.fading_sum import FadingSum
from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.estimators.pace import KeyPace, KeySpread
from adaptive_batching.core.fairness.fair_cost_queue import FairCostQueue
from adaptive_batching.core.fairness.fair_queue import FairQueue
from adaptive_batching.core.fairness.tenant_orders import TenantOrders
from adaptive_batching.core.fairness.tenants import Tenants
from adaptive_batching.core.job import Job
from adaptive_batching.core.permits import Permits
from adaptive_batching.core.policy import Limits, Situation
from adaptive_batching.core.queues.cost_queue import CostQueue
from adaptive_batching.core.queues.job_queue import JobQueue
from adaptive_batching.core.queues.key_order import Line, QueueOrder
from adaptive_batching.core.queues.key_queue import KeyQueue

_PUT_OFF = 4.0  # times what all that waits takes: from 4 on answers are as many as without a bound
_REMEMBERED = 1024  # batch keys with what was learned of them; a client may make up any number
_FOR_EVER = 1e9  # seconds; with that much to spare what a batch is worth decides alone
_BRIEFEST = 1e-9  # seconds; a coarse clock says of short batches that they took none
_SAME = 1.25  # times another lookahead; to sort all queues anew for less is not worth it


class Queues:
    """The queues of all batch keys, and the order in which they should be served.

    That is the earliest deadline first, but none is put off for longer than `deferral`: a worker
    that is never idle with small batches of one key would not come to another one without a
    deadline, however little there is to do. It answers all in time if that can be done at all
    (Jackson 1955); where it can't, it is the worst order: each batch leaves at the last moment,
    with the few that have come.

    A policy may then ask for the order of Vepsalainen and Morton's apparent tardiness cost
    (Management Science 33, 1987), `density * exp(-slack / lookahead)`: a batch goes first for what
    it is worth (items for each second of its worker) and for how little it can be put off. By the
    logarithm, `latest_start - lookahead * log(density)`, time moves all queues alike, so that
    they stay sorted.

    Where tenants share the workers, the tenant furthest behind its share is served first, and of
    its queues the one that goes first by the above.

    Args:
        limits: What the user asked for.
        permits: The workers, and how long they take.
        timer_lateness: How late wake-ups come.
        weighing: Whether `look_ahead` may be asked for.
        tenants: The accounts of tenants; None if jobs are not told apart by tenant.
    """

    def __init__(
        self,
        limits: Limits,
        permits: Permits,
        timer_lateness: TimerLateness,
        *,
        weighing: bool,
        tenants: Tenants | None = None,
    ) -> None:
        self.views: dict[Hashable, KeyQueue] = {}
        """The queues by batch key, empty ones among them."""
        self.items = 0
        """Items waiting, in all queues."""
        self.shared = False
        """Whether there was ever more than one batch key, so that one must go first."""
        self.only: KeyQueue | None = None
        """The first queue of all: there is no other one while they are not `shared`."""
        self.lookahead = 0.0
        """Seconds that a batch is put off for one that is worth e times as much; 0 for none."""
        self._limits = limits
        self._permits = permits
        self._timer_lateness = timer_lateness
        self._weighing = weighing
        self._tenants = tenants
        self._opened = count()
        self._batches = 0  # that left, or were turned away, while there were several keys
        self._gone = FadingSum()  # items in those
        self._spread = KeySpread()
        self._order = QueueOrder()
        self._by_tenant = None if tenants is None else TenantOrders(tenants)
        self._changed: dict[KeyQueue, None] = {}  # since they were last weighed
        self._counted: dict[KeyQueue, float] = {}  # their deadlines as they were then
        self._deadlines = 0.0  # summed; a queue without any is not counted
        self._kept: KeyQueue | None = None  # the queue that is to be asked first once more

    @property
    def number(self) -> int:
        """Queues in which jobs wait: each needs at least one batch of its own."""
        return len(self._order)

    @property
    def batches(self) -> int:
        """About as many are needed for all that waits, but one at least."""
        number = max(1, self.number)
        latency = self._permits.latency
        full = self._limits.full(latency.peak, latency.mean_cost)
        return number + max(0, self.items - number) // full

    @property
    def duration(self) -> float:
        """Seconds that one of them takes, on average."""
        return self._permits.latency.predict(self.items / self.batches)

    def deferral(self) -> float:
        """Seconds for which a job may be put off for more urgent ones.

        That is four times as long as all that waits now takes to be served: below capacity a few
        batches, and in an overload long enough for deadlines to decide. Before it is known how
        long batches take, deadlines alone decide.
        """
        return _PUT_OFF * self.batches * self.duration / max(1, self.workers) or inf

    @property
    def workers(self) -> int:
        """Workers that are alive."""
        return self._permits.capacity

    @property
    def mean_deadline(self) -> float:
        """Mean of the queues' earliest deadlines (seconds); `inf` where there are none."""
        return self._deadlines / len(self._counted) if self._counted else inf

    def open(
        self, key: Hashable, limits: Limits, latency: LinearLatency | None, now: float
    ) -> KeyQueue:
        """A queue for a key that has none, with its limits and what its batches take.

        Args:
            key: The batch key.
            limits: Of its batches.
            latency: Their own line; None if their pace is learned beside that of all keys.
            now: The present (seconds).
        """
        age = next(self._opened)
        queue = self._empty_queue(limits)
        usual = self._permits.latency
        pace = KeyPace(usual, self._spread) if latency is None else None
        line = usual if latency is None else latency
        view = KeyQueue(queue, self._permits, limits, line, self._timer_lateness, age, pace, now)
        if self.views and not self.shared:
            self.shared = usual.mixed = True
            for other in self.views.values():
                self._place(other)
        self.views[key] = view
        self.only = self.only or view
        return view

    def _empty_queue(self, limits: Limits) -> JobQueue:
        """A queue for jobs of one batch key."""
        costs, tenants, deferral = limits.costs, self._tenants, self.deferral
        if costs is None:
            return JobQueue(deferral) if tenants is None else FairQueue(tenants, deferral)
        if tenants is None:
            return CostQueue(costs, deferral)
        return FairCostQueue(costs, tenants, deferral)

    def retune(self, limits: Limits, *, weighing: bool) -> None:
        """Other limits hold, and another policy may ask for another order, or for none."""
        self._limits = limits
        self._weighing = weighing
        self.lookahead = self._deadlines = 0.0
        self._kept = None
        self._order.by_worth = Line()
        self._counted.clear()
        self._changed = dict.fromkeys(self.views.values()) if weighing else {}

    def joined(self, view: KeyQueue, job: Job) -> None:
        """A job has come to a queue; of interest if there are others."""
        self._order.joined(view, job.deadline, job.arrived)
        if self._by_tenant is not None:
            self._by_tenant.place(view)
        if self._weighing:
            self._changed[view] = None

    def left(self, key: Hashable, items: int) -> None:
        """So many items have left a queue."""
        self.items -= items
        if not self.shared:
            return
        self._batches += 1
        self._gone.add(items, self._batches)
        self.views[key] = view = self.views.pop(key)  # the last of those that are remembered
        view.gone.add(items, self._batches)
        self._place(view)
        if len(self.views) > _REMEMBERED:
            self._forget_oldest()

    def among(self, view: KeyQueue, known: Situation) -> Situation:
        """What is known of a queue, in which jobs wait, beside several others."""
        gone, total = view.gone.after(self._batches), self._gone.after(self._batches)
        share = max(gone / total, 1.0 / LONG_MEMORY) if gone else 1.0  # of less nothing is known
        return known._replace(
            idle_share=known.idle_share * known.items / self.items,
            all_items=self.items,
            all_rate=known.all_rate / share,
        )

    def forget_unused(self, key: Hashable) -> None:
        """Do not remember a queue for a job that was not let in, if there are many."""
        if len(self.views) > _REMEMBERED and not self.views[key].queue.requests:
            del self.views[key]

    def _forget_oldest(self) -> None:
        """Forget the queue that was used longest ago, unless jobs wait in it."""
        key = next(iter(self.views))
        view = self.views.pop(key)
        if view.queue.requests:
            self.views[key] = view

    def weigh(self) -> None:
        """Take note of what has changed since the last decision.

        Only now, for the order may depend on what is learned, but not on how often it was asked.
        """
        for view in self._changed:
            self._deadlines -= self._counted.pop(view, 0.0)
            deadline = view.queue.earliest_deadline
            if deadline != inf:
                self._counted[view] = deadline
                self._deadlines += deadline
            if not view.queue.requests:
                self._order.by_worth.drop(view)
            elif self.lookahead:
                self._place_by_worth(view)
        self._changed.clear()
        if not self._counted:
            self._deadlines = 0.0  # what was rounded away is not carried on for ever

    def look_ahead(self, seconds: float) -> None:
        """Change the order of service; what is about the same as before changes nothing."""
        if self.lookahead / _SAME <= seconds <= self.lookahead * _SAME:
            return
        self.lookahead = min(seconds, _FOR_EVER)
        self._order.by_worth = Line()
        if seconds:
            for view in self._order.by_deadline.entries:
                self._place_by_worth(view)

    def ahead_of(self, view: KeyQueue, job: Job) -> float:
        """Seconds of a worker for the batches that would leave before the job's, of other keys.

        None is counted while all can be in time, nor where the turns of tenants decide.

        Args:
            view: In which the job would wait.
            job: One with a deadline.
        """
        if not self.lookahead or self._by_tenant is not None:
            return 0.0
        items, due = view.items + job.size, job.deadline
        if items <= view.limits.max_batch_size:
            due = min(due, view.queue.earliest_deadline)
        ahead = self._order.by_worth.ahead_of(view, self._worth(view, items, due))
        return ahead * self.duration

    def most_pressing(self) -> KeyQueue:
        """The queue of the job that expires first, of several; one must wait."""
        return self._order.by_deadline.first

    def keep_turn(self, view: KeyQueue) -> None:
        """Ask a queue first once more: it has given up jobs for the batch that leaves next.

        Without them the queue is less urgent. If another queue then took the worker, the jobs would
        have been given up for nothing.
        """
        if self.shared:
            self._kept = view

    def in_turn(self, now: float) -> Iterator[KeyQueue]:
        """The queues, the one to be served first at first."""
        kept, self._kept = self._kept, None
        if kept is not None and kept.queue.requests:
            return chain((kept,), (view for view in self._ordered(now) if view is not kept))
        return self._ordered(now)

    def _ordered(self, now: float) -> Iterator[KeyQueue]:
        if self._by_tenant is not None:
            worths = self._order.by_worth if self.lookahead else None
            return self._by_tenant.in_turn(now, self.deferral(), worths)
        return self._order.in_turn(self.deferral(), weighed=self.lookahead > 0)

    def _place_by_worth(self, view: KeyQueue) -> None:
        due = view.queue.soonest.deadline
        if due == inf:  # or it would come after all that have a deadline, for ever
            due = view.queue.oldest.arrived + self.deferral()
        self._order.by_worth.put(view, self._worth(view, view.items, due))

    def _worth(self, view: KeyQueue, items: int, due: float) -> float:
        """How urgent a batch of a queue is that so many items wait for, as an instant (seconds)."""
        items = min(items, view.limits.max_batch_size)
        duration = view.duration(items)
        if not duration:  # a class of which no batch has run: all kinds together give an idea
            duration = max(self._permits.latency.predict(items), _BRIEFEST)
        return due - duration - self.lookahead * log(items / duration)

    def _place(self, view: KeyQueue) -> None:
        queue = view.queue
        if queue.requests:
            self._order.put(view, queue.soonest.deadline, queue.oldest.arrived)
        else:
            self._order.drop(view)
        if self._by_tenant is not None:
            self._by_tenant.place(view)
        if self._weighing:
            self._changed[view] = None


@runtime_checkable
class Triage(Protocol):
    """A policy may also say whether the earliest deadline should go first."""

    def lookahead(self, queues: Queues, now: float) -> float:
        """0 if it should, or the seconds for which a batch may be put off for one that is worth
        e times as much; asked while several queues wait and a worker is idle.
        """  # fmt: skip
        ...
