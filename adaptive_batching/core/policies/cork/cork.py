"""The default policy; see `docs/explanation/cork.md`."""

from math import inf

from adaptive_batching.core.estimators.delays import LARGEST_SHARE
from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.policies.cork.admission_control import allowance, overrun, retry_after
from adaptive_batching.core.policies.cork.batch_size import (
    boarding_limit,
    cut_short,
    cut_to_size,
    safe_size,
    up_to_knee,
)
from adaptive_batching.core.policies.cork.holding import held_until
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policies.cork.worker_choice import wait_for_faster
from adaptive_batching.core.policies.shedding import hopeless, shed_or_probe
from adaptive_batching.core.policy import (
    NONE_WELCOME,
    Decision,
    Dispatch,
    Hold,
    Shed,
    ShedReason,
    Situation,
    Welcome,
)
from adaptive_batching.core.queues.key_queue import KeyQueue
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
        at, parameters = up_to_knee(situation), self.parameters
        if at.faster is not None and (waiting := wait_for_faster(at, at.faster, parameters)):
            return waiting
        now, items, soonest, limit = at.now, at.items, at.soonest, at.limits.max_batch_size
        most, full = at.full, at.fixed + at.per_item * at.full
        due, overloaded = inf, False
        if soonest.deadline != inf:
            # When it must leave, with one more job, a slow batch and a late timer.
            slow = at.predict_with(soonest, min(items, limit) + at.mean_size) * (1.0 + at.margin)
            due = soonest.deadline - slow - at.late_for(soonest)
            item_rate = at.rate * at.arrivals.offered_ratio * at.mean_size
            overloaded = item_rate * full > parameters.overloaded * most * at.capacity
            if limit > parameters.extrapolation * at.largest or not at.trusted:
                limit = safe_size(at, soonest, parameters)
            if now >= due and (
                late := _about_late(at, full, limit, parameters, overloaded=overloaded)
            ):
                return late
        # No other job may join; less is full if it may cost no more.
        if items >= limit or items >= at.limits.max_queue or (most < limit and at.filled):
            return Dispatch(cut_to_size(at, limit), Reason.FULL)
        until = held_until(at, full, due, parameters, overloaded=overloaded)
        if until > now:
            few = hopeless(at, begin=until) if until > due else []
            return Shed(few, ShedReason.OUTWEIGHED) if few else Hold(until)
        if now >= due:
            return Dispatch(cut_to_size(at, limit), Reason.DEADLINE)
        size = boarding_limit(at, limit, parameters)
        if at.limits.sizes:  # the next of them: too small costs more than too large
            size = cut_to_size(at, min(limit, at.limits.padded(size)))
        return Dispatch(size, Reason.IDLE if at.idle >= at.workers else Reason.NOT_WORTH_WAITING)

    def welcome(self, queue: KeyQueue) -> Welcome:
        """The jobs for which an idle worker has room, or for which even a full batch is in time."""
        limit, line, permits = queue.limits.max_batch_size, queue.line, queue.permits
        if min(line.peak.limit, line.peak.trial) < limit or permits.uneven:
            return NONE_WELCOME
        if permits.idle:
            return Welcome(limit * permits.idle)
        if queue.queue.groups is not None:  # what is ahead of a job is not counted in items
            return NONE_WELCOME
        full = line.fixed + line.per_item * queue.limits.padded(limit)
        longer = 1.0 + allowance(line.margin, self.parameters)
        # a worker that is overdue may hang
        return Welcome(limit, permits.earliest + longer * full, until=permits.earliest)

    def refuse(self, situation: Situation, job: Job) -> float | None:
        """None if the job can make its deadline, or the seconds after which it could."""
        return retry_after(up_to_knee(situation), job, self.parameters)

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


def _about_late(
    at: Situation, full: float, limit: int, parameters: CorkParameters, *, overloaded: bool
) -> Dispatch | Shed | None:
    """What to do about jobs that would be late; None if there are none.

    In overload, jobs that would be late if the batch overran give up their places to those behind.
    """
    short, extrapolation = cut_short(at), parameters.extrapolation
    if late := hopeless(short, extrapolation=extrapolation):
        return shed_or_probe(at, late)
    if full <= 0 or not (overloaded or at.items >= parameters.backlog * limit):
        return None
    margin = overrun(at, full, at.limits.max_latency, parameters)
    displaced = hopeless(short, margin, extrapolation=extrapolation)
    return Shed(displaced, ShedReason.DISPLACED) if displaced else None
