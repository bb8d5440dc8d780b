"""Which job is refused when it arrives, and when to come again."""

from collections.abc import Sequence

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

    The jobs ahead fill batches, which a job can't precede, but some of them are shed: a batch that
    leaves gives up jobs where as many that expire later are in time in their place. The longer the
    oldest has waited, the longer overload has lasted, and the less a batch will lack jobs later on.
    """
    limit, now = at.limits.max_batch_size, at.now
    # an idle worker slower than the best is not given these jobs
    idle = at.idle if at.faster is None else 0
    frees = [now] * idle + sorted([max(now, batch.predicted_finish) for batch in at.running])
    longest = min(limit, parameters.extrapolation * at.largest)
    round_of_all = at.predict(longest) * len(frees) / at.capacity
    shed = 0.0
    if at.soonest.deadline < job.deadline:
        lasted = (now - at.oldest.arrived) / (job.deadline - now)
        shed = parameters.shed * at.workers * max(0.0, 1.0 - lasted)
    full = max(0, int(at.jobs.ahead_of(job) / limit - shed))
    # with none ahead it may even be in the next batch, and alone
    own = at.predict_joined(job, longest if full else job.size)
    others = _others_first(at, job, parameters) if at.others else 0.0
    if _leaves(full, frees, round_of_all) + others + own - job.deadline <= 0:
        return None
    shortest = at.predict(1)
    told = [batch.expected_finish(now, shortest) for batch in at.running]
    told = sorted([now] * idle + told)
    late = _leaves(full, told, round_of_all) + others + own - job.deadline
    if not full:
        return late
    # Once the batches ahead have left, it may be in the next, and alone. If an idle worker takes
    # the last of them now, the next leaves no sooner than the shortest batch has ended.
    ahead = _leaves(full - 1, told, round_of_all) + others - now
    alone = late - own + at.predict_joined(job, job.size)
    return min(late, max(ahead, alone) or shortest)


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


def _leaves(nth: int, frees: Sequence[float], round_of_all: float) -> float:
    """When that one of the batches to come can leave, if those before it are full (seconds)."""
    return frees[nth % len(frees)] + nth // len(frees) * round_of_all
