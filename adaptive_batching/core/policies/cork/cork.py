"""The default policy; see `docs/explanation/cork.md`."""

from math import inf

from adaptive_batching.core.estimators.delays import LARGEST_SHARE
from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.policies.cork.admission_control import retry_after
from adaptive_batching.core.policies.cork.batch_size import (
    boarding_limit,
    cut_short,
    cut_to_size,
    safe_size,
)
from adaptive_batching.core.policies.cork.holding import gathered_until, spaced_until
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policies.cork.worker_choice import leaves_to_faster, wait_for_faster
from adaptive_batching.core.policies.shedding import hopeless, shed_or_probe
from adaptive_batching.core.policy import Decision, Dispatch, Hold, Situation
from adaptive_batching.core.queues.queues import Queues
from adaptive_batching.core.records import BatchRecord


class Cork:
    """Holds a batch as long as the jobs that may still join gain more than the waiting jobs lose.

    With a worker idle, a batch is released when it is full, when a job would be late otherwise, or
    when waiting isn't worth it; in overload it is until the batch is full. Jobs that would be late
    even so are shed.

    Args:
        parameters: The numbers that it does not learn; None for those of the default.
    """

    def __init__(self, parameters: CorkParameters | None = None) -> None:
        self.parameters = CorkParameters() if parameters is None else parameters

    def decide(self, situation: Situation) -> Decision:
        """Release, hold or shed; asked while a worker is idle."""
        at, parameters = _up_to_knee(situation), self.parameters
        if at.faster is not None:
            waiting = wait_for_faster(at, at.faster, parameters)
            if waiting is not None:
                return waiting
        now, limit, soonest = at.now, at.limits.max_batch_size, at.soonest
        item_rate, full = at.rate * at.mean_size, at.fixed + at.per_item * limit
        due, overloaded = inf, False
        if soonest.deadline != inf:
            overloaded = item_rate * full > parameters.overloaded * limit * at.capacity
            limit = safe_size(at, soonest, parameters)
            crowded = overloaded or at.items >= parameters.backlog * limit
            margin = _shed_margin(at, full) if crowded else 0.0
            then = cut_short(at) if at.limits.sizes else at
            late = hopeless(then, margin, extrapolation=parameters.extrapolation)
            if late:
                return shed_or_probe(at, late)
            due = _latest_release(at, soonest)
        filled = at.items >= limit or at.items >= at.limits.max_queue  # no other job may join
        if filled or now >= due:
            size = cut_to_size(at, limit) if at.limits.sizes else limit
            return Dispatch(size, Reason.FULL if filled else Reason.DEADLINE)
        rest = at.arrivals.newest + full  # until then the rest of a full batch is on its way
        if overloaded and now < rest:
            return Hold(min(rest, due))
        if at.idle >= at.workers:
            until, reason = gathered_until(at, due, parameters), Reason.IDLE
        else:
            until, reason = spaced_until(at, full, due, parameters), Reason.NOT_WORTH_WAITING
        if until > now:
            return Hold(min(until, due))
        size = boarding_limit(at, limit, parameters)
        return Dispatch(cut_to_size(at, size) if at.limits.sizes else size, reason)

    def refuse(self, situation: Situation, job: Job) -> float | None:
        """None if the job can make its deadline, or the seconds after which it could."""
        at = _up_to_knee(situation)
        limit = at.limits.max_batch_size
        if at.idle:
            if at.faster is not None and leaves_to_faster(at, job):
                at = at.on(at.faster)
            elif at.items + job.size <= limit * at.idle:
                return None  # whatever is predicted: a wrong fit must meet the facts
        elif at.items < limit:
            most = max(limit, job.size)
            full = at.predict_joined(job, most) if at.per_cost else at.fixed + at.per_item * most
            if at.next_free + full <= job.deadline:
                return None  # the common case, asked for every job: even a full batch would do
        if not at.workers or not at.trusted:
            return None  # nothing says when a dead worker will be back
        return retry_after(at, job, self.parameters)

    def lookahead(self, queues: Queues, now: float) -> float:
        """Seconds that a batch may be put off for another key's; 0 while all can be in time.

        All are in time, on average, if the middle one is, which leaves after half of them.
        """
        duration, workers = queues.duration, max(1, queues.workers)
        turn = (queues.batches - 1) / 2 * duration / workers
        left = (1.0 - LARGEST_SHARE) * (queues.mean_deadline - now)
        if queues.number < 2 or turn + duration <= left:
            return 0.0
        return self.parameters.lookahead * duration / workers

    def observe(self, batch: BatchRecord) -> None:
        """Nothing: the scheduler's latency model and arrivals have seen it."""


def _up_to_knee(at: Situation) -> Situation:
    return at.up_to(at.peak.limit) if at.peak.limit < at.limits.max_batch_size else at


def _shed_margin(at: Situation, full: float) -> float:
    """The share by which batches overrun; a full one must leave jobs a part of their promise."""
    if full <= 0:
        return 0.0
    longest = (1.0 - LARGEST_SHARE) * at.limits.max_latency / full - 1.0
    return max(0.0, min(at.margin, longest))


def _latest_release(at: Situation, soonest: Job) -> float:
    """When the first to expire must leave, with one more job, a slow batch and a late timer."""
    size = min(at.items, at.limits.max_batch_size) + at.mean_size
    slow = at.predict_with(soonest, size) * (1.0 + at.margin)
    return soonest.deadline - slow - at.late_for(soonest)
