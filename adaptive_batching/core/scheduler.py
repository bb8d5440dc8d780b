"""When which batch leaves: everything decided, nothing done.

Every driver runs the same loop: call `next(now)` and do what it says until it says `Hold`, then arm
one wake-up for `Hold.until`. Call again after submits, after a batch has ended, and at the wake-up.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from adaptive_batching.core.admission import Admission
from adaptive_batching.core.checked_policy import CheckedPolicy
from adaptive_batching.core.estimators.delays import TIMER_RESOLUTION, TimerLateness
from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.estimators.pace import Latency
from adaptive_batching.core.fairness.fairness import Fairness
from adaptive_batching.core.fairness.tenants import Tenants
from adaptive_batching.core.job import Batch, BoundedKey, Job, Outcome
from adaptive_batching.core.job_class import JobClass, latency_for
from adaptive_batching.core.permits import Permits
from adaptive_batching.core.policy import Hold, Limits, Policy, Shed, ShedReason
from adaptive_batching.core.queues.key_queue import KeyQueue
from adaptive_batching.core.queues.queues import Queues
from adaptive_batching.core.records import BatchRecord
from adaptive_batching.core.release import Release
from adaptive_batching.core.retry.bisection import Bisection, Durations, Verdict
from adaptive_batching.core.retry.memory_limit import CostMemoryLimit, MemoryLimit
from adaptive_batching.errors import BatchingError


class Finished(NamedTuple):
    """What came of a batch.

    Attributes:
        record: The batch itself.
        verdicts: What becomes of its failed members; one without a verdict fails as the batch did.
    """

    record: BatchRecord
    verdicts: Mapping[Job, Verdict]


class Scheduler:
    """Queues by batch key, permits, a policy and the latency model that it learns from.

    Args:
        policy: Decides about one queue at a time.
        limits: What the user asked for.
        workers: Batches that may run at the same time, or permits with ways of their own.
        idempotent: Whether members of a batch that failed may be run again; see `rerun`.
        classes: By batch key, jobs with limits and a duration of their own; what is said above
            holds for all other keys.
        fairness: How tenants share the workers; None if tenants are not told apart.
        timer_resolution: Of the driver's wake-ups (seconds), until they have shown theirs: shorter
            holds are not worth arming.
    """

    def __init__(
        self,
        policy: Policy,
        limits: Limits,
        workers: int | Permits = 1,
        *,
        idempotent: bool = False,
        classes: Mapping[Hashable, JobClass] = MappingProxyType({}),
        fairness: Fairness | None = None,
        timer_resolution: float = TIMER_RESOLUTION,
    ) -> None:
        self.limits = limits
        self.classes = classes
        if not isinstance(workers, Permits):
            workers = Permits(workers, latency_for(limits))
        self.permits = workers
        self.latency = self.permits.latency
        self._idempotent = idempotent
        self._bisection = Bisection()
        self._timer_lateness = TimerLateness(timer_resolution)
        self.policy = policy
        self._policy = CheckedPolicy(policy)
        self._tenants = None if fairness is None else Tenants(fairness, limits, self.latency)
        self._queues = Queues(
            limits,
            self.permits,
            self._timer_lateness,
            weighing=self._policy.triages,
            tenants=self._tenants,
        )
        self._admission = Admission(self.permits, self._queues, self._policy, self._tenants)
        self._release = Release(
            self.permits, self._queues, self._bisection, self._policy, self._tenants
        )
        self.draining = False
        """Whether it takes no more jobs."""

    def __repr__(self) -> str:
        return (
            f"<Scheduler queued={self.items} idle={self.permits.idle}/{self.permits.capacity}"
            f" {self.latency!r}>"
        )

    @property
    def items(self) -> int:
        """Items waiting, in all queues."""
        return self._queues.items + self._bisection.items

    def queued(self, key: Hashable) -> int:
        """Items waiting in the queue of one batch key."""
        view = self._queues.views.get(key)
        return 0 if view is None else view.items

    def line(self, key: Hashable) -> Latency:
        """How long batches of a key take on a worker as fast as most."""
        view = self._queues.views.get(key)
        if view is not None:
            return view.line
        return self._own_line(key) or self.latency

    @property
    def requests(self) -> int:
        """Jobs waiting, in all queues."""
        return sum(view.requests for view in self.queues.values()) + len(self._bisection)

    @property
    def queues(self) -> Mapping[Hashable, KeyQueue]:
        """The queues by batch key, empty ones among them; to be looked at."""
        return MappingProxyType(self._queues.views)

    @property
    def suspects(self) -> Sequence[Job]:
        """Members of batches that failed, which wait to run again."""
        return tuple(self._bisection)

    @property
    def watchful(self) -> bool:
        """Whether `next` may do more than expire jobs while every worker is busy."""
        return self._policy.watches

    def submit(self, job: Job) -> None:
        """Let a job wait for its batch; `job.arrived` is the present.

        Raises:
            JobTooLarge: It holds more items than a batch or the queue may, or costs more.
            QueueFull: Too many items wait already, or of its tenant's: `TenantQueueFull`.
            Overloaded: It would be late by all that is known.
            Draining: `drain` was called.
            PolicyError: The policy can't say whether to let it in.
            ValueError: It holds no items, or it costs no number from 0 to 2**53 an item.
        """
        size = job.size
        queues = self._queues
        limits, queued = self.limits, queues.items
        if self.classes and job.key in self.classes:
            limits, queued = self.classes[job.key].limits, self.queued(job.key)
        if not 0 < size <= limits.max_batch_size or self.draining:
            raise self._admission.never(size, limits, draining=self.draining)
        if limits.costs is not None:
            limits.costs.check(job)
        view = queues.views.get(job.key)
        if queued + size > limits.max_queue:
            if view is not None:
                view.arrivals.refused(job.arrived)
            raise self._admission.queue_full(job, queued, limits, self.line(job.key))
        view = view or self._open(job.key, job.arrived)
        if (job.deadline != inf or self._tenants is not None) and self._admission.asks:
            try:
                self._admission.check(view, job, queued)
            except BatchingError:
                view.arrivals.refused(job.arrived)
                queues.forget_unused(job.key)  # clients make up as many keys as they like
                raise
        view.arrivals.arrived(job.arrived)
        if size > 1:
            view.arrivals.more_items += size - 1
        view.queue.append(job)
        queues.items += size
        if queues.shared:
            queues.joined(view, job)

    def retry_after(self, job: Job, now: float) -> float:
        """Seconds after which a job like this one would be let in to stay, if no other came.

        For jobs that were shed from the queue, once all is decided that there is to decide now. It
        is 0 for a job that was late because it had waited: a new one need not wait.
        """
        return self._admission.retry_after(job, now)

    def refuse_unseen(self, now: float, patience: float) -> float | None:
        """Seconds after which a job of one item would be let in, if no other came; None if now.

        For drivers for which it costs much to look at a job. Only where no job is more welcome than
        another: with one batch key and one tenant.

        Args:
            now: The present (seconds).
            patience: Seconds from now to the deadline.
        """
        return self._admission.refuse_unseen(now, patience)

    def rehearse(self, timings: Iterable[tuple[int, int, float, float]]) -> None:
        """Learn from batches that ran before the first job came; see `Permits.rehearse`."""
        self.permits.rehearse(timings)

    def cancel(self, job: Job) -> bool:
        """Take a job out of the queue; False if it has already left."""
        return self._release.cancel(job)

    def retune(self, policy: Policy, limits: Limits) -> None:
        """Decide by another policy and other limits from now on.

        No job is turned away by it: one that waits keeps its place and its deadline, even if it is
        larger than a batch may be, or more wait than may. What was learned of durations and
        arrivals is kept; the policy begins anew. Classes keep their limits; see `retune_class`.

        Raises:
            ValueError: Costs are to be counted in another way; see `Limits.check_change`.
        """
        self.limits.check_change(limits)
        self.permits.changes += 1  # which jobs are welcome is asked anew
        self.policy, self.limits = policy, limits
        self._policy = CheckedPolicy(policy)
        self._queues.retune(limits, weighing=self._policy.triages)
        if self._tenants is not None:
            self._tenants.retune(limits)
        self._admission = Admission(self.permits, self._queues, self._policy, self._tenants)
        self._release.retune(self._policy)
        for key, view in self._queues.views.items():
            if key not in self.classes:
                view.retune(self._limits_of(key))

    def retune_class(self, key: Hashable, limits: Limits) -> None:
        """Decide by other limits about one class of jobs; as in `retune`."""
        self.classes[key].limits.check_change(limits)
        self.permits.changes += 1
        self.classes = {**self.classes, key: self.classes[key].limited(limits)}
        view = self._queues.views.get(key)
        if view is not None:
            view.retune(limits)

    def flush(self) -> None:
        """From now on let what waits leave as soon as a worker is free."""
        self._release.flushing = True

    def drain(self) -> None:
        """Flush, and take no more jobs."""
        self._release.flushing = self.draining = True

    def abandon(self, due_before: float = inf) -> list[Job]:
        """Take the jobs out whose deadline is before an instant, or all, and return them."""
        waiting = [job for view in self.queues.values() for job in view.queue]
        waiting += self.suspects
        abandoned = [job for job in waiting if due_before == inf or job.deadline < due_before]
        for job in abandoned:
            self.cancel(job)
        return abandoned

    def next(self, now: float) -> Batch | Shed | Hold:
        """What to do now; call again until it says `Hold`.

        Raises:
            PolicyError: The policy's decision can't be carried out.
        """
        if now >= self._timer_lateness.due:
            self._timer_lateness.woke(now)
        if self._bisection.items:
            step = self._next_of_bisection(now)
        else:
            step = self._next(now) if self._queues.items else _WAIT
        if isinstance(step, Hold):
            self.wakes_at(step.until)
        return step

    def wakes_at(self, instant: float) -> None:
        """Expect a wake-up: a driver may know what `next` would say, and not ask.

        Args:
            instant: For which it was asked (seconds).
        """
        self._timer_lateness.due = instant

    def _next(self, now: float) -> Batch | Shed | Hold:
        """What to do about the queues; there must be a job in one."""
        queues = self._queues
        first = queues.most_pressing() if queues.shared else queues.only
        assert first is not None
        _, _, soonest = first.queue.foremost()
        until = soonest.deadline
        if until <= now:
            return self._release.expire(first, now)
        if not self.permits.idle and (self._release.flushing or not self._policy.watches):
            return Hold(until)  # no answer is computed that is already late
        if queues.shared and self._policy.triages:  # else the first by deadline is asked anyway
            pressing = self._release.shed_or_probe(first, now)
            if pressing is not None:
                return pressing
        holding: KeyQueue | None = None
        hold = _WAIT
        for view in self._in_turn(now) if queues.shared else (first,):
            step = self._release.decide(view, now, holding)
            if not isinstance(step, Hold):
                return step
            if step.until < hold.until:
                hold = step
            if self._tenants is not None and holding is None:
                holding = view
        return hold if hold.until <= until else Hold(until)

    def _next_of_bisection(self, now: float) -> Batch | Shed | Hold:
        """A job that runs again has waited longest, and is ahead of every queue."""
        bisection = self._bisection
        until = bisection.earliest_deadline
        if until <= now:
            return Shed(bisection.take_expired(now), ShedReason.EXPIRED)
        idle = self.permits.idle
        group = bisection.take(lambda key: self._limits_now(key).costs) if idle else None
        if group is not None:
            size = sum(job.size for job in group.jobs)
            key = group.jobs[0].key
            return self._release.leave(
                group.jobs,
                size,
                self.line(key),
                self._limits_of(key),
                group.reason,
                now,
                group.deaths,
            )
        step = self._next(now) if self._queues.items else _WAIT
        return Hold(min(step.until, until)) if isinstance(step, Hold) else step

    def _in_turn(self, now: float) -> Iterator[KeyQueue]:
        """The queues of several keys, in the order in which they should be asked."""
        if self._policy.triages:
            self._queues.weigh()
            self._queues.look_ahead(self._policy.lookahead(self._queues, now))
        return self._queues.in_turn(now)

    def finish(
        self,
        batch: Batch,
        outcome: Outcome,
        now: float,
        failed: Sequence[Job] = (),
        start: float | None = None,
    ) -> Finished:
        """Return the permit of an ended batch, learn from it, let its failed members run again.

        Args:
            batch: The one that ended.
            outcome: How it did; what ran out of time is not run again.
            now: The present (seconds).
            failed: The members that failed with it and whose callers still want an answer. They
                run again, mostly in smaller batches, if running them twice is as good as once, or
                if the worker did not begin.
            start: When a worker can take them, at the earliest; None for now.

        Raises:
            PolicyError: The policy raised when it was told; no member runs again.
        """
        self.permits.give_back(batch)
        record = BatchRecord.of(batch, outcome, now)
        view = self._queues.views.get(batch.key)
        if outcome is Outcome.DONE:
            line = self._own_line(batch.key) if self.classes else None
            pace = view.pace if view is not None and self._queues.shared else None
            duration = now - batch.released
            self.permits.learn(batch.worker, batch.padded_size, duration, line, pace, batch.cost)
            if pace is not None and view is not None:
                view.learned(pace)
        if self._bisection.ever:
            self._bisection.ended(batch, outcome, failed, self._durations(batch.key))
        if view is not None:
            if outcome is Outcome.OUT_OF_MEMORY or view.cap is not None:
                self._restrict(view, batch, outcome, now)
            if view.arrivals.fresh:
                view.digest(now)
            workers = max(1, self.permits.capacity)
            view.arrivals.clump.answered(now, len(batch.jobs), workers)
        self._policy.observe(record)
        if not failed:
            return Finished(record, _NO_VERDICTS)
        return Finished(record, self._verdicts(batch, failed, outcome, now, start))

    def _verdicts(
        self, batch: Batch, failed: Sequence[Job], outcome: Outcome, now: float, start: float | None
    ) -> Mapping[Job, Verdict]:
        of_class = self.classes.get(batch.key)
        idempotent = self._idempotent if of_class is None else of_class.idempotent
        start = now if start is None else start
        return self._bisection.judge(
            batch,
            failed,
            outcome,
            now,
            start,
            idempotent=idempotent,
            durations=self._durations(batch.key),
        )

    def _durations(self, key: Hashable) -> Durations:
        limits = self._limits_now(key)
        return Durations(self.line(key), limits.costs, limits.sizes)

    def _restrict(self, view: KeyQueue, batch: Batch, outcome: Outcome, now: float) -> None:
        """Limit the batches of a key to what its worker's memory holds."""
        limits = self._limits_of(batch.key)
        costs = limits.costs
        if view.cap is not None:
            cap = view.cap
        elif costs is None:
            cap = MemoryLimit(limits.padded(limits.max_batch_size), limits.sizes)
        else:
            cap = CostMemoryLimit(costs.max_batch_cost, limits.sizes)
        cap.ended(batch, outcome, now)
        view.cap = None if cap.lifted else cap
        if cap.lifted:
            view.limits = limits
        elif costs is None:
            view.limits = limits.up_to(int(cap.limit))
        else:
            view.limits = replace(limits, costs=replace(costs, max_batch_cost=cap.limit))

    def _open(self, key: Hashable, now: float) -> KeyQueue:
        return self._queues.open(key, self._limits_of(key), self._own_line(key), now)

    def _own_line(self, key: Hashable) -> LinearLatency | None:
        """That of the class of a key; None if the key is of no class."""
        of_class = self.classes.get(key)
        return None if of_class is None else of_class.latency

    def _limits_now(self, key: Hashable) -> Limits:
        """Return the limits of a key, lowered to what its workers' memory holds."""
        view = self._queues.views.get(key)
        return self._limits_of(key) if view is None else view.limits

    def _limits_of(self, key: Hashable) -> Limits:
        limits = self.classes[key].limits if key in self.classes else self.limits
        if isinstance(key, BoundedKey) and key.max_batch_size < limits.max_batch_size:
            return limits.up_to(key.max_batch_size)
        return limits


_WAIT = Hold()
_NO_VERDICTS: Mapping[Job, Verdict] = MappingProxyType({})
