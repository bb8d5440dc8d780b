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

    It might if the jobs ahead leave room in a full batch that is in time. Or if a smaller one would
    be that leaves later: jobs that would be late in it are shed, and it is small unless new ones
    keep coming. They are expected to do so for as long as overload has lasted, some times over.
    """
    now = at.now
    # an idle worker slower than the best is not given these jobs
    idle = [now] * (at.idle if at.faster is None else 0)
    frees = idle + [max(now, batch.predicted_finish) for batch in at.running]
    longest = min(at.limits.max_batch_size, parameters.extrapolation * at.largest)
    full = at.predict(longest)
    every = full * len(frees) / at.capacity
    if not every:
        return None  # a coarse clock says of short batches that they take no time
    others = _others_first(at, job, parameters) if at.others else 0.0
    alone = job.deadline - others - at.predict_joined(job, job.size)
    in_full = job.deadline - others - at.predict_joined(job, max(longest, job.size))
    last = max(_lasts(frees, alone, every), default=-inf)
    waited = now - at.oldest.arrived - full  # for longer than the batch before it takes
    if last > in_full and last - now >= parameters.lasting * waited:
        return None
    if not _filled(at, job, frees, in_full, every, others + full):
        return None
    shortest = at.predict(1)
    told = idle + [batch.expected_finish(now, shortest) for batch in at.running]
    opens = _next(told, alone, every)
    if alone - now < parameters.lasting * (waited + opens):
        opens = _next(told, in_full, every)
    overdue = min(told) > min(frees)
    return max(opens, min(told) - now) if overdue else opens


def _filled(
    at: Situation, job: Job, frees: Sequence[float], until: float, every: float, after: float
) -> bool:
    """Whether the jobs ahead fill all full batches that leave in time for a job.

    A batch gives up jobs that would be late in it where as many wait behind them. So all batches
    are filled only if from each of them on, the jobs that would not be late in it fill the rest.

    Args:
        at: The situation.
        job: The one that has come.
        frees: When each worker is free (seconds).
        until: When such a batch has to leave (seconds).
        every: A worker that runs full batches is free once in so many seconds.
        after: A batch of those ahead has ended so many seconds later.
    """
    lasts = _lasts(frees, until, every)
    batches = sum([(until - free) // every + 1.0 for free in frees if free <= until])
    limit, jobs = at.limits.max_batch_size, at.jobs
    ahead = jobs.ahead_of(job)
    if ahead < batches * limit:
        return False
    rest = list(enumerate(lasts, 1))
    rounds = 1  # of all workers before these; to look at each would cost more than it shows
    while lasts and (release := lasts[-1] - rounds * every) >= min(frees):
        rest.append(((1 + rounds) * len(lasts), release))
        rounds *= 2
    return all(jobs.fill(number * limit, release + after, ahead) for number, release in rest)


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


def _lasts(frees: Sequence[float], instant: float, every: float) -> list[float]:
    """When each worker is free for the last time until an instant, the latest first (seconds)."""
    return sorted([_last(free, instant, every) for free in frees if free <= instant], reverse=True)


def _last(free: float, instant: float, every: float) -> float:
    """When a worker is free for the last time until an instant (seconds).

    It is before the first time if that is later.
    """
    return free + (instant - free) // every * every


def _next(frees: Sequence[float], instant: float, every: float) -> float:
    """Seconds from an instant until the next time that one of the workers is free."""
    return min([max(free, _last(free, instant, every) + every) for free in frees]) - instant
