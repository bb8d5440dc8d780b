"""Which job is refused when it arrives, and when to come again."""

from collections.abc import Sequence
from math import inf

from adaptive_batching.core.job import Job
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policies.cork.worker_choice import leaves_to_faster
from adaptive_batching.core.policies.shedding import doubtful, probed_after
from adaptive_batching.core.policy import Situation


def retry_after(at: Situation, job: Job, parameters: CorkParameters) -> float | None:
    """Seconds after which the job would be let in if no other job came; None if it is let in now.

    It is let in while an idle worker has room for it, whatever is predicted: a wrong fit must meet
    the facts. Under load no worker is idle when it comes: then it may be let in as a probe. While
    full batches wait beside an idle worker the driver's decision is late, and those that wait will
    be the first to expire.
    """
    if at.idle:
        if at.faster is not None and leaves_to_faster(at, job):
            at = at.on(at.faster)
        elif at.items + job.size <= at.limits.max_batch_size * at.idle or _undecided(at):
            return None
    if not at.workers or not at.trusted:
        return None  # nothing says when a dead worker will be back
    if _may_probe(at, job):
        return None
    opens = _opens_after(at, job, parameters)
    return None if opens is None else max(opens, probed_after(at, job))


def _undecided(at: Situation) -> bool:
    """Whether jobs have waited beside an idle worker, and none faster, for as long as one takes."""
    return at.faster is None and at.now - at.oldest.arrived >= at.predict(1)


def _may_probe(at: Situation, job: Job) -> bool:
    """Whether a job may wait for a worker, as a probe, and one may be free before its deadline.

    Where no worker is idle a probe displaces other jobs, so that the probes of all keys share a
    fiftieth of the workers' time. The first of a key may wait even if that is used up.
    """
    if at.items or (at.now < at.next_probe and not at.untried):
        return False
    shortest = at.predict(1)
    free = min((batch.expected_finish(at.now, shortest) for batch in at.running), default=at.now)
    return free < job.deadline and doubtful(at, job)


def _opens_after(at: Situation, job: Job, parameters: CorkParameters) -> float | None:
    """Seconds until the job might be answered in time; None if it might be now.

    It might be in a full batch, if the jobs ahead leave room in it. Or it might be in a smaller one
    that leaves later: the jobs ahead are late for it, so that it is small unless new jobs keep
    coming. An overload is expected to go on for `lasting` times as long as it has lasted.
    """
    now = at.now
    # an idle worker slower than the best is not given these jobs
    idle = [now] * (at.idle if at.faster is None else 0)
    frees = idle + [max(now, batch.predicted_finish) for batch in at.running]
    longest = min(at.limits.max_batch_size, parameters.extrapolation * at.largest)
    full = at.predict(longest)
    cycle = full * len(frees) / at.capacity
    if not cycle:
        return None  # a coarse clock says of short batches that they take no time
    others = _others_first(at, job, parameters) if at.others else 0.0
    latest_alone = job.deadline - others - at.predict_joined(job, job.size)
    latest_full = job.deadline - others - at.predict_joined(job, max(longest, job.size))
    last = max(_lasts(frees, latest_alone, cycle), default=-inf)
    began = at.oldest.arrived + full  # the overload: below capacity, too, one batch is waited for
    if last > latest_full and last - now >= parameters.lasting * max(0.0, now - began):
        return None
    if _has_room(at, job, frees, latest_full, cycle, others + full):
        return None
    shortest = at.predict(1)
    told = idle + [batch.expected_finish(now, shortest) for batch in at.running]
    opens = _next(told, latest_alone, cycle)
    if latest_alone - now < parameters.lasting * max(0.0, now + opens - began):
        opens = _next(told, latest_full, cycle)
    overdue = min(told) > min(frees)
    return max(opens, min(told) - now) if overdue else opens


def _has_room(
    at: Situation, job: Job, frees: Sequence[float], latest: float, cycle: float, duration: float
) -> bool:
    """Whether the jobs ahead leave room for one in a full batch that is in time for it.

    A batch gives up jobs that would be late in it where as many wait behind them. So all batches
    are full only if, from each on, the jobs that would not be late in it fill that and the rest.

    Args:
        at: The situation.
        job: The one that has come.
        frees: When each worker is free (seconds).
        latest: When such a batch may leave at the latest (seconds).
        cycle: Seconds between two full batches of a worker.
        duration: Seconds from the release of a batch of the jobs ahead to its end.
    """
    frees = [free for free in frees if free <= latest]
    if not frees:
        return False
    begin, lasts = min(frees), _lasts(frees, latest, cycle)
    limit, jobs = at.limits.max_batch_size, at.jobs
    ahead, own = jobs.ahead_of(job), min(job.size, limit)
    batches = sum([(latest - free) // cycle + 1.0 for free in frees])
    if ahead + own <= batches * limit:
        return True
    number = 1  # from the last batch back: 1, 2, 4 and so on show nearly as much as each
    while (release := _nth_last(lasts, number, cycle)) >= begin:
        unready = sum([(free - release) // cycle for free in frees if release < free])
        in_time = jobs.in_time(ahead, release + duration)
        if in_time + own <= (number - unready) * limit:
            return True
        number *= 2
    return False


def _others_first(at: Situation, job: Job, parameters: CorkParameters) -> float:
    """Seconds for which the batches of other keys go before that of a job, as far as they will.

    Where more jobs are to join its batch, that is soon worth more, and none is counted. Of the
    others, which wait for this as well, a part is late before its turn has come.
    """
    until = min(job.deadline, at.soonest.deadline) if at.requests else job.deadline
    rate = at.rate * at.arrivals.offered_ratio
    if at.requests + 1 + rate * (until - at.now) > parameters.few:
        return 0.0
    return parameters.in_turn * at.others / at.capacity


def _lasts(frees: Sequence[float], instant: float, cycle: float) -> list[float]:
    """When each worker is free for the last time until an instant, the latest first (seconds)."""
    return sorted([_last(free, instant, cycle) for free in frees if free <= instant], reverse=True)


def _nth_last(lasts: Sequence[float], number: int, cycle: float) -> float:
    """When a worker is free for the nth time, counted from the last time back (seconds)."""
    rounds, place = divmod(number - 1, len(lasts))
    return lasts[place] - rounds * cycle


def _last(free: float, instant: float, cycle: float) -> float:
    """When a worker is free for the last time until an instant (seconds).

    A worker that is free only after it counts as if it had been free before as often.
    """
    return free + (instant - free) // cycle * cycle


def _next(frees: Sequence[float], instant: float, cycle: float) -> float:
    """Seconds from an instant until the next time that one of the workers is free."""
    return min([max(free, _last(free, instant, cycle) + cycle) for free in frees]) - instant
