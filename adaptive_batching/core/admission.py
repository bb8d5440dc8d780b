"""Decides which jobs are turned away at the door, why, and when they may come again."""

from math import ceil, inf

from adaptive_batching.core.checked_policy import CheckedPolicy
from adaptive_batching.core.estimators.evidence import PRIOR_NOISE
from adaptive_batching.core.estimators.pace import Latency
from adaptive_batching.core.fairness.tenants import Tenants
from adaptive_batching.core.job import Job, TenantJob
from adaptive_batching.core.permits import Permits
from adaptive_batching.core.policies.shedding import probed_after
from adaptive_batching.core.policy import Limits
from adaptive_batching.core.queues.key_queue import KeyQueue
from adaptive_batching.core.queues.queues import Queues
from adaptive_batching.errors import (
    Draining,
    JobTooLarge,
    Overloaded,
    QueueFull,
    Refused,
    TenantQueueFull,
)
from adaptive_batching.units import format_duration

LATER = 1.0 + PRIOR_NOISE  # times the predicted wait, which scatters: a moment early is in vain


class Admission:
    """The reasons for which a scheduler does not take a job.

    Args:
        permits: The workers, and how long they take.
        queues: All that waits.
        policy: A policy, which may turn jobs away.
        tenants: Accounts of those that jobs come from; None if tenants are not told apart.

    Attributes:
        asks: Whether there is more to ask than whether the queue has room.
    """

    __slots__ = ("_permits", "_policy", "_queues", "_tenants", "asks")

    def __init__(
        self,
        permits: Permits,
        queues: Queues,
        policy: CheckedPolicy,
        tenants: Tenants | None,
    ) -> None:
        self._permits = permits
        self._queues = queues
        self._policy = policy
        self._tenants = tenants
        self.asks = policy.keeps_door or tenants is not None

    def check(self, view: KeyQueue, job: Job, queued: int) -> None:
        """See whether a job may wait in a queue; `job.arrived` is the present.

        Args:
            view: The queue.
            job: The job that wants to wait there.
            queued: Items with which it shares the room.

        Raises:
            TenantQueueFull: Too many of its tenant's items wait already.
            Overloaded: It would be late by all that is known.
            PolicyError: The policy can't say whether to let it in.
        """
        if self._tenants is not None:
            excess = self._tenants.excess(job, queued, view.limits.max_queue)
            if excess > 0:
                raise self._tenant_full(view, job, excess)
        wait = self._refused_for(view, job)
        if wait is not None:
            within = format_duration(job.deadline - job.arrived)
            msg = f"an answer is out of reach within max_latency={within}"
            raise Overloaded(msg, retry_after=wait * LATER)

    def never(self, size: int, limits: Limits, *, draining: bool) -> Refused | ValueError:
        """Why a job of so many items is not taken at all."""
        if size < 1:
            return ValueError(f"size: expected at least 1 item, got {size}")
        if draining:
            return Draining("this dispatcher is closed and takes no more requests")
        limit = limits.max_batch_size
        return JobTooLarge(f"expected at most max_batch_size={limit} items, got {size}")

    def queue_full(self, job: Job, queued: int, limits: Limits, line: Latency) -> Refused:
        """There is no room for it beside so many items that wait, or not even alone."""
        most = limits.max_queue
        if job.size > most:
            return JobTooLarge(f"expected at most max_queue={most} items, got {job.size}")
        wait = self._room_after(job, queued + job.size - most, limits, line)
        msg = f"{queued} of max_queue={most} items wait, no room for {job.size} more"
        return QueueFull(msg, retry_after=wait)

    def retry_after(self, job: Job, now: float) -> float:
        """Seconds after which a job like this one is worth sending; see `Scheduler.retry_after`."""
        view = self._queues.views.get(job.key)
        if view is None or job.deadline == inf:
            return 0.0
        again = TenantJob.again(job, now)
        wait = self._refused_for(view, again)
        if wait is None:
            wait, permits = probed_after(view.situation(now), again), self._permits
            if permits.running and not permits.idle and permits.earliest <= now:
                # a worker is overdue, maybe for long: a new job would wait for another
                wait = max(wait, permits.room_after(now, view.duration(1)))
        return wait * LATER

    def refuse_unseen(self, now: float, patience: float) -> float | None:
        """Turn away a job of one item that was not looked at; see `Scheduler.refuse_unseen`."""
        views = self._queues.views
        if len(views) != 1 or self._tenants is not None or self._queues.shared:
            return None
        ((key, view),) = views.items()
        wait = self._refused_for(view, Job(now, 1, now + patience, key))
        if wait is None:
            return None
        view.arrivals.refused(now)
        return wait * LATER

    def _refused_for(self, view: KeyQueue, job: Job) -> float | None:
        """Seconds for which the policy keeps a job out; None if it lets it in now."""
        policy, queues, permits = self._policy, self._queues, self._permits
        if not policy.keeps_door or job.deadline == inf:
            return None
        if view.welcome_as_of != permits.changes:
            view.welcome, view.welcome_as_of = policy.welcome(view), permits.changes
        others = queues.ahead_of(view, job) if queues.lookahead else 0.0
        if not others:
            items, deadline, until = view.welcome
            fits = view.queue.items + job.size <= items
            if fits and deadline <= job.deadline and job.arrived <= until:
                return None
        return policy.refuse(view, job, others)

    def _tenant_full(self, view: KeyQueue, job: Job, excess: int) -> TenantQueueFull:
        most = view.limits.max_queue
        msg = f"its tenant's items take up as much of max_queue={most} as is left for all others"
        wait = self._room_after(job, excess, view.limits, view.line)
        return TenantQueueFull(msg, retry_after=wait)

    def _room_after(self, job: Job, excess: int, limits: Limits, line: Latency) -> float:
        """Room comes with the batches that leave; then the door has to be open as well."""
        view, permits, now = self._queues.views.get(job.key), self._permits, job.arrived
        limit = (
            limits.full(line.peak, line.mean_cost) if view is None else view.full(view.mean_cost)
        )
        full = line.predict(limit) if view is None else view.duration(limit)
        shortest = line.predict(1) if view is None else view.duration(1)
        wait = permits.room_after(now, shortest)
        wait += (ceil(excess / limit) - 1) * full / max(1, permits.capacity)
        wait = max(wait * LATER, self.retry_after(job, now))
        return wait if wait < inf else full
