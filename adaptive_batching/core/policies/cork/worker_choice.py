"""Whether to wait for a faster worker that is still busy, or to take the slow one that is idle."""

from math import inf

from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.policies.shedding import hopeless, shed_or_probe
from adaptive_batching.core.policy import Decision, Dispatch, Hold, QueueView
from adaptive_batching.core.worker import Worker

_TIMER_LATE = 1e-3  # seconds; asyncio rounds waits up to a millisecond
_OVERLOADED = 0.97  # of the capacity of the faster ones; the rest is noise in the estimate
_TRIAL = 64.0  # full batches; who is passed over for as long as they would take him is tried


def wait_for_faster(queue: QueueView, now: float) -> Decision | None:
    """What to do because a busy worker is faster than the best idle one; None if nothing.

    A batch waits if the faster one, once free, would still finish all that waits before the slow
    one would finish this batch. A worker that is overdue by x is expected to need x more, so that
    nobody waits for one that hangs. The slow one takes the batch all the same if it can keep the
    oldest job's deadline and the faster one may not; it gets none whose deadline it can't keep
    while the faster one still can.

    Who is passed over for long is tried with one job: it may have recovered.
    """
    slow = queue.worker
    fast = None if slow is None else _foremost(queue, slow, now)
    if slow is None or fast is None or fast.batch is None:
        return None
    size = min(queue.items, queue.limits.max_batch_size)
    on_slow, on_fast = queue.duration_on(slow, size), queue.duration_on(fast, size)
    latest = queue.soonest.deadline - _TIMER_LATE  # when it has to be finished
    longer = 1.0 + queue.latency.margin
    slow_until, fast_until = latest - on_slow * longer, latest - on_fast * longer
    free = fast.free(now)
    clearing = _clearing(queue, slow, now)
    pays_until = fast.batch.predicted_finish + on_slow - on_fast - clearing
    if now <= slow_until:
        pays = free + on_fast + clearing < now + on_slow and now < pays_until
        last_call = slow_until - _TIMER_LATE
        overdue = fast.batch.released + fast.batch.predicted * longer <= now  # 1 in 10 is
        if not pays or free > fast_until or (overdue and now >= last_call):
            return None
        until = min(pays_until, last_call) if now < last_call else pays_until
    elif clearing == inf and on_slow * longer <= queue.soonest.deadline - queue.soonest.arrived:
        return None  # somebody has to go: those whom the slow one can't answer, but not the others
    else:
        queue.aim(fast)
        late = hopeless(queue, 0.0, free)
        if late:
            return shed_or_probe(queue, late, now)
        until = max(queue.soonest.deadline - on_fast, now + _TIMER_LATE)
    if now - slow.released > _TRIAL * queue.duration_on(slow, queue.limits.max_batch_size):
        return Dispatch(queue.head.size, Reason.PROBE)
    return Hold(until)


def leaves_to_faster(queue: QueueView, job: Job, now: float) -> bool:
    """Whether the best idle worker is too slow for a new job, and a faster one is busy."""
    slow = queue.worker
    if slow is None or not queue.latency.trusted:
        return False
    size = min(queue.items + job.size, queue.limits.max_batch_size)
    if now + queue.duration_on(slow, size) <= job.deadline - _TIMER_LATE:
        return False
    fast = _foremost(queue, slow, now)
    if fast is not None:
        queue.aim(fast)
    return fast is not None


def _foremost(queue: QueueView, slow: Worker, now: float) -> Worker | None:
    """The busy worker, of those that are faster, on which a large batch would end first."""
    worker = queue.foremost(now)
    if worker is None or worker.latency.factor >= slow.latency.factor:
        return None
    return worker


def _clearing(queue: QueueView, slow: Worker, now: float) -> float:
    """Seconds that the faster workers need for those who do not fit into this batch.

    For ever, if more come than the faster ones can do alone.
    """
    limit = queue.limits.max_batch_size
    faster = [each for each in queue.alive if each.latency.factor < slow.latency.factor]
    per_item = queue.duration_on(slow, limit) / limit / slow.worth(faster)
    item_rate = queue.arrivals.rate(now, queue.window) * queue.arrivals.mean_size
    if item_rate * per_item > _OVERLOADED:
        return inf
    return max(0, queue.items - limit) * per_item
