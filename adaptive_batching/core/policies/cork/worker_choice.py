"""Whether to wait for a faster worker that is still busy, or to take the slow one that is idle."""

from math import inf

from adaptive_batching.core.estimators.evidence import MEMORY
from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policies.shedding import hopeless, shed_or_probe
from adaptive_batching.core.policy import Decision, Dispatch, FasterWorker, Hold, Situation


def wait_for_faster(
    slow: Situation, faster: FasterWorker, parameters: CorkParameters
) -> Decision | None:
    """What to do because a busy worker is faster than the best idle one; None if nothing.

    A batch waits if the faster one, once free, would finish all that waits before the slow one
    would finish this batch, and that gains more for these jobs than the next ones lose; unless only
    the slow one is sure to keep the oldest deadline. The slow one gets no job whose deadline it
    can't keep while the faster one still can.
    """
    now, soonest, fast = slow.now, slow.soonest, slow.on(faster)
    size, limit = min(slow.items, slow.full), slow.full
    on_slow, on_fast, late = slow.predict(size), fast.predict(size), slow.late_for(soonest)
    longer = 1.0 + slow.margin
    slow_until = soonest.deadline - late - on_slow * longer
    fast_until = soonest.deadline - late - on_fast * longer
    predicted_finish = faster.released + faster.predicted
    free = max(now, predicted_finish)
    per_item = slow.predict(limit) / limit / faster.worth  # seconds that the faster ones need
    enough = slow.rate * slow.mean_size * per_item <= parameters.overloaded
    clearing = max(0, slow.items - limit) * per_item if enough else inf
    pays_until = predicted_finish + on_slow - on_fast - clearing
    if now <= slow_until:
        gain = now + on_slow - (free + on_fast + clearing)
        # Jobs that come to the faster one until it has run this batch wait for its items as well.
        come = slow.rate * (free + on_fast - now) / (faster.worth * faster.factor)
        delayed = come * fast.per_item * size
        pays = slow.requests * gain > delayed and now < pays_until
        last_call = slow_until - late
        overdue = faster.released + faster.predicted * longer <= now  # 1 in 10 is
        if not pays or free > fast_until or (overdue and now >= last_call):
            return None
        until = min(pays_until, last_call) if now < last_call else pays_until
    elif not enough and on_slow * longer <= soonest.deadline - soonest.arrived:
        return None  # some jobs must go: those that the slow one can't answer
    else:
        doomed = hopeless(fast, begin=free, extrapolation=parameters.extrapolation)
        if doomed:
            return shed_or_probe(slow, doomed)
        until = max(soonest.deadline - on_fast, now + slow.timer)
    if slow.passed_over > MEMORY * fast.predict(limit):
        return Dispatch(slow.head.size, Reason.PROBE)  # what is known of it would be forgotten
    return Hold(until) if until > now else None


def leaves_to_faster(slow: Situation, job: Job) -> bool:
    """Whether the best idle worker is too slow for a new job; asked if a faster one is busy."""
    size = min(slow.items + job.size, slow.full)
    return slow.trusted and slow.now + slow.predict(size) > job.deadline - slow.late_for(job)
