"""Whether to wait for a faster worker that is still busy, or to take the slow one that is idle."""

from math import inf

from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policies.shedding import hopeless, shed_or_probe
from adaptive_batching.core.policy import Decision, Dispatch, FasterWorker, Hold, Situation


def wait_for_faster(
    slow: Situation, faster: FasterWorker, parameters: CorkParameters
) -> Decision | None:
    """What to do because a busy worker is faster than the best idle one; None if nothing.

    A batch waits if the faster one, once free, would still finish all that waits before the slow
    one would finish this batch. A worker that is overdue by x is expected to need x more, so that
    no job waits for one that hangs. The slow one takes the batch all the same if it can keep the
    oldest job's deadline and the faster one may not; it gets none whose deadline it can't keep
    while the faster one still can.

    A worker that is passed over for long is tried with one job: it may have recovered.
    """
    now, soonest = slow.now, slow.soonest
    fast = slow.on(faster)
    size = min(slow.items, slow.limits.max_batch_size)
    on_slow, on_fast = slow.predict(size), fast.predict(size)
    late = slow.timers_late
    latest = soonest.deadline - late  # when it has to be finished
    longer = 1.0 + slow.margin
    slow_until, fast_until = latest - on_slow * longer, latest - on_fast * longer
    predicted_finish = faster.released + faster.predicted
    free = max(now, predicted_finish)
    clearing = _clearing(slow, faster, parameters.overloaded)
    pays_until = predicted_finish + on_slow - on_fast - clearing
    if now <= slow_until:
        pays = free + on_fast + clearing < now + on_slow and now < pays_until
        last_call = slow_until - late
        overdue = faster.released + faster.predicted * longer <= now  # 1 in 10 is
        if not pays or free > fast_until or (overdue and now >= last_call):
            return None
        until = min(pays_until, last_call) if now < last_call else pays_until
    elif clearing == inf and on_slow * longer <= soonest.deadline - soonest.arrived:
        return None  # some jobs must go: those that the slow one can't answer
    else:
        doomed = hopeless(fast, begin=free, extrapolation=parameters.extrapolation)
        if doomed:
            return shed_or_probe(slow, doomed)
        until = max(soonest.deadline - on_fast, now + slow.timer)
    if slow.passed_over > parameters.trial * slow.predict(slow.limits.max_batch_size):
        return Dispatch(slow.head.size, Reason.PROBE)
    return Hold(until) if until > now else None


def leaves_to_faster(slow: Situation, job: Job) -> bool:
    """Whether the best idle worker is too slow for a new job; asked if a faster one is busy."""
    if not slow.trusted:
        return False
    size = min(slow.items + job.size, slow.limits.max_batch_size)
    return slow.now + slow.predict(size) > job.deadline - slow.timers_late


def _clearing(slow: Situation, faster: FasterWorker, overloaded: float) -> float:
    """Seconds that the faster workers need for the jobs that do not fit into this batch.

    For ever, if more come than the faster ones can do alone.
    """
    limit = slow.limits.max_batch_size
    per_item = slow.predict(limit) / limit / faster.worth
    if slow.rate * slow.mean_size * per_item > overloaded:
        return inf
    return max(0, slow.items - limit) * per_item
