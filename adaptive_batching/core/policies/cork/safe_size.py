"""How large a batch may be while it is not known how long large ones take."""

from adaptive_batching.core.job import Job
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policy import Situation


def safe_size(at: Situation, soonest: Job, parameters: CorkParameters) -> int:
    """The batch that keeps the earliest deadline even at the worst slope that is still possible.

    Only beyond the sizes that were tried: up to those, jobs are shed instead, because small batches
    for late jobs waste capacity.

    Returns:
        A number of items.
    """
    limit, steepest = at.limits.max_batch_size, at.per_item_at_most
    tried = max(1, round(parameters.extrapolation * at.largest))
    if not at.trusted:
        tried = min(tried, _ever_in_time(at, soonest.deadline - soonest.arrived))
    if not steepest or limit <= tried:
        return limit
    spare = soonest.deadline - at.now - at.fixed - at.per_item * at.largest
    in_time = at.largest + spare / steepest
    return max(tried, at.head.size, int(min(in_time, limit)))


def _ever_in_time(at: Situation, patience: float) -> int:
    """The largest batch that could be in time for a job that has just come.

    Nothing is shed before the fit is trusted, and batches that double until then may take minutes.
    """
    limit = at.limits.max_batch_size
    if at.predict(limit) <= patience or not at.per_item:
        return limit
    return max(1, int((patience - at.fixed) / at.per_item))
