"""Which job is refused when it arrives, and when to come again."""

from adaptive_batching.core.job import Job
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policies.cork.worker_choice import leaves_to_faster
from adaptive_batching.core.policy import Situation


def retry_after(at: Situation, job: Job, parameters: CorkParameters) -> float | None:
    """Seconds after which the job would be let in if no other job came; None if it is let in now.

    It is let in while an idle worker has room for it, whatever is predicted: a wrong fit must meet
    the facts.
    """
    limit = at.limits.max_batch_size
    if at.idle:
        if at.faster is not None and leaves_to_faster(at, job):
            at = at.on(at.faster)
        elif at.items + job.size <= limit * at.idle:
            return None
    elif at.items < limit:
        most = max(limit, job.size)
        full = at.predict_joined(job, most) if at.per_cost else at.fixed + at.per_item * most
        if at.next_free + full <= job.deadline:
            return None
    if not at.workers or not at.trusted:
        return None  # nothing says when a dead worker will be back
    return _opens_after(at, job, parameters)


def _opens_after(at: Situation, job: Job, parameters: CorkParameters) -> float | None:
    """Seconds until a batch with all that waits by then can end in time, or a worker is idle."""
    limit, now, patience = at.limits.max_batch_size, at.now, job.deadline - at.now
    longest = min(limit, parameters.extrapolation * at.largest)
    full = int(at.jobs.ahead_of(job) // limit)
    rest = min(
        at.items * at.jobs.item_worth - full * limit, limit
    )  # what is behind it may share its batch
    if patience < at.predict(limit) * (1.0 + 1.0 / at.capacity):
        full, rest = min(full, at.idle), 0  # no full batch can follow one in time: they are shed
    frees = sorted([max(now, batch.predicted_finish) for batch in at.running])
    if at.faster is None:  # an idle worker slower than the best is not given these jobs
        frees = [now] * at.idle + frees
    round_of_all = at.predict(longest) * len(frees) / at.capacity

    def leaves(nth: int) -> float:
        """When that one of the batches to come can leave, if those before it are full."""
        return frees[nth % len(frees)] + nth // len(frees) * round_of_all

    free, size = leaves(full), max(job.size, min(rest + job.size, longest))
    own = at.predict_joined(job, size)
    late = free + max(own, at.predict_joined(job, longest) if full else 0.0) - job.deadline
    if late <= 0:
        return None
    opens = now + late
    if full and opens > leaves(full - 1):
        opens = max(leaves(full - 1), free + own - patience)
    if opens < free or not rest:
        return min(opens, free) - now
    following = free + at.predict(rest) if at.workers == 1 else leaves(full + 1)
    return min(max(free, following + at.predict(job.size) - patience), following) - now
