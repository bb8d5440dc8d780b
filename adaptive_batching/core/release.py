"""How jobs leave the queues: as the policy says, in a batch or turned away; late; or taken out."""

from adaptive_batching.core.checked_policy import CheckedPolicy
from adaptive_batching.core.estimators.evidence import MEMORY
from adaptive_batching.core.estimators.pace import Latency
from adaptive_batching.core.fairness.tenants import Tenants
from adaptive_batching.core.job import Batch, Job, Reason
from adaptive_batching.core.permits import Permits
from adaptive_batching.core.policy import Dispatch, Hold, Limits, Shed, ShedReason, Situation
from adaptive_batching.core.queues.key_queue import KeyQueue
from adaptive_batching.core.queues.queues import Queues
from adaptive_batching.core.retry.bisection import Bisection


class Release:
    """The ways out of a scheduler's queues; each takes the jobs out of all that counts them.

    Args:
        permits: The workers; each batch that leaves takes the permit of one.
        queues: All that waits for the first time.
        bisection: Jobs that wait to run again.
        policy: A policy, which says which jobs leave.
        tenants: Accounts of those that jobs come from; None if tenants are not told apart.

    Attributes:
        flushing: Whether what waits leaves as soon as a worker is free, without asking.
    """

    __slots__ = ("_bisection", "_permits", "_policy", "_queues", "_tenants", "flushing")

    def __init__(
        self,
        permits: Permits,
        queues: Queues,
        bisection: Bisection,
        policy: CheckedPolicy,
        tenants: Tenants | None,
    ) -> None:
        self._permits = permits
        self._queues = queues
        self._bisection = bisection
        self._policy = policy
        self._tenants = tenants
        self.flushing = False

    def retune(self, policy: CheckedPolicy) -> None:
        """Let another policy say which jobs leave from now on."""
        self._policy = policy

    def decide(
        self, view: KeyQueue, now: float, holding: KeyQueue | None = None
    ) -> Batch | Shed | Hold:
        """Ask the policy, and do what it says.

        Args:
            view: About this queue.
            now: The present (seconds).
            holding: One that goes first by fairness, and holds: before another tenant takes the
                last idle worker, it does. What it waits for would not come any more.

        Raises:
            PolicyError: The decision can't be carried out.
        """
        if self.flushing:
            return self._release(view, Dispatch(view.limits.max_batch_size, Reason.DRAIN), now)
        if view.arrivals.fresh and not self._permits.running:  # beside one, gaps matter less
            view.digest(now)
        situation = view.situation(now)
        if self._queues.shared:
            situation = self._queues.among(view, situation)
        decision = self._policy.decide(situation)
        if isinstance(decision, Hold):
            return decision
        if isinstance(decision, Dispatch):
            if holding is not None and self._permits.idle == 1:
                size = holding.limits.max_batch_size
                return self._release(holding, Dispatch(size, Reason.NOT_WORTH_WAITING), now)
            return self._release(view, decision, now, situation)
        if decision.reason is ShedReason.DISPLACED and holding is None:
            self._queues.keep_turn(view)
        return self._turn_away(view, decision, now)

    def shed_or_probe(self, view: KeyQueue, now: float) -> Batch | Shed | None:
        """Shed the late jobs of a queue, or release its probe, before its turn.

        A probe is slow and small, so that it is worth the least and its turn might never come.

        Returns:
            None if the queue has to wait for its turn.
        """
        queue = view.queue
        duration = view.duration(min(queue.items, view.limits.max_batch_size))
        if self.flushing or now + duration <= queue.soonest.deadline:
            return None
        decision = self._policy.decide(self._queues.among(view, view.situation(now)))
        if isinstance(decision, Dispatch):
            due = decision.reason is Reason.PROBE and now >= self._permits.next_probe
            return self._release(view, decision, now) if due else None
        if isinstance(decision, Shed) and decision.reason is ShedReason.HOPELESS:
            return self._turn_away(view, decision, now)
        return None

    def leave(
        self,
        jobs: list[Job],
        size: int,
        line: Latency,
        limits: Limits,
        reason: Reason,
        now: float,
        deaths: int = 0,
    ) -> Batch:
        """Jobs that wait no more leave for a worker, which there must be.

        Args:
            jobs: All of one batch key.
            size: Their items together.
            line: How long batches of that key take.
            limits: Of that key.
            reason: Why they leave.
            now: The present (seconds).
            deaths: Of workers that ran them before.
        """
        worker = self._permits.idlest
        padded = limits.padded(size) if limits.sizes else size
        cost = own_cost = 0.0
        if limits.costs is not None:
            cost = limits.costs.of_jobs(jobs)
            own_cost = limits.costs.of_each(jobs)
            if padded > size and not limits.costs.padded:
                jobs = limits.costs.fillers_last(jobs)
        batch = Batch(
            jobs,
            size,
            jobs[0].key,
            reason,
            now,
            line.predict(padded, cost) * worker.latency.factor,
            self._queues.items,
            worker.index,
            deaths,
            cost,
            own_cost,
            padded,
        )
        if self._tenants is not None:
            self._tenants.charge(batch, line, limits)
        self._permits.take(batch)
        return batch

    def expire(self, view: KeyQueue, now: float) -> Shed:
        """Let the jobs of a queue leave unanswered whose deadline has come; there must be one."""
        expired = view.queue.take_expired(now)
        view.arrivals.clump.shed(now, len(expired))
        self._queues.left(expired[0].key, sum(job.size for job in expired))
        return Shed(expired, ShedReason.EXPIRED)

    def cancel(self, job: Job) -> bool:
        """Take a job out; False if it has already left."""
        if self._bisection.remove(job):
            return True
        if not job.waiting:
            return False
        self._queues.views[job.key].queue.remove(job)
        self._queues.left(job.key, job.size)
        return True

    def _release(
        self, view: KeyQueue, decision: Dispatch, now: float, known: Situation | None = None
    ) -> Batch:
        if not self._permits.idle:
            raise self._policy.broken(0, "Hold or Shed while every worker is busy", decision, now)
        allowed = min(decision.size, view.limits.max_batch_size)
        queue = view.queue
        waiting = queue.items
        if queue.groups is None:
            jobs = queue.take(allowed)
        else:
            jobs = queue.take_together(allowed, (known or view.situation(now)).terms)
        if not jobs and view.head.size > view.limits.max_batch_size:
            jobs = queue.take(view.head.size)  # it came before the limit, and may be told
        if not jobs:
            expected = f"a Dispatch of at least the head's {view.head.size} items"
            raise self._policy.broken(self._permits.idle, expected, decision, now)
        size = waiting - queue.items
        self._queues.left(jobs[0].key, size)
        if view.arrivals.fresh:
            view.digest(now)
        batch = self.leave(jobs, size, view.line, view.limits, decision.reason, now)
        view.untried = False
        view.probes = view.probes + 1 if batch.reason is Reason.PROBE else 0
        if batch.reason is Reason.PROBE and batch.left_waiting and not self._permits.idle:
            factor = self._permits.workers[batch.worker].latency.factor
            self._permits.spend_on_probe(now, batch.predicted / factor)
        view.forgotten = now + min(view.probes + 1, MEMORY) * batch.predicted
        return batch

    def _turn_away(self, view: KeyQueue, decision: Shed, now: float) -> Shed:
        jobs = decision.jobs
        if not jobs:
            raise self._policy.broken(self._permits.idle, "a Shed of at least one job", decision)
        # All at first: jobs taken out have to be told, and a mistake tells those that wait.
        if len(set(jobs)) < len(jobs) or not all(job.waiting for job in jobs):
            raise self._policy.broken(
                self._permits.idle, "a Shed of waiting jobs, each once", decision
            )
        for job in jobs:
            self.cancel(job)
        view.arrivals.clump.shed(
            now, len(jobs), for_the_many=decision.reason is ShedReason.OUTWEIGHED
        )
        return decision
