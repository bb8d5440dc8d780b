"""How many items a batch takes where it is not as large as it may be."""

from math import sqrt

from adaptive_batching.core.job import Job
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policy import Situation


def up_to_knee(at: Situation) -> Situation:
    """The situation in which no batch is so large that fewer items are answered in a second."""
    limits, peak = at.limits, at.peak
    most = peak.trial if at.items > limits.max_batch_size else peak.limit
    return at if most >= limits.max_batch_size else at.up_to(limits.knee(most))


def boarding_limit(at: Situation, limit: int, parameters: CorkParameters) -> int:
    """A full batch (items); less where its first would wait long for its last.

    In batches of n each of N items waits N * fixed / n for fixed parts and n * per_item for its
    own, halved: least at sqrt(N * fixed / per_item) (Harris 1913). N is a worker's share of what
    waits and comes until the queues are empty. It is `caution` times that, and at least so many
    times what the workers need to keep up: just that where long batches would starve the others.
    Batches stay whole if in parts the last job would be late.
    """
    fixed, per_item, capacity, item_rate = at.fixed, at.per_item, at.capacity, at.all_rate
    spare = capacity - item_rate * per_item
    if at.requests == 1 or per_item <= 0 or spare <= 0 or not at.trusted:
        return limit
    keeps_up = item_rate * fixed / spare
    busy = (fixed * capacity + per_item * at.all_items) / spare
    items = (at.all_items + item_rate * busy) / capacity
    economical = parameters.caution * max(sqrt(items * fixed / per_item), keeps_up)
    if economical < limit:
        each = per_item + fixed / max(1.0, economical)  # seconds of a worker
        if at.all_items * each <= at.limits.max_latency * capacity:
            limit = max(1, round(economical), at.head.size)
    least = max(1, round(min(parameters.caution * keeps_up, limit)), at.head.size)
    long = item_rate * per_item > parameters.long_batches * capacity
    if long and at.workers > 1 and at.items <= 2 * least:
        return min(limit, least)
    return limit


def cut_to_size(at: Situation, limit: int) -> int:
    """A batch of up to `limit` items, or one cut to the allowed size below what waits.

    It is cut if the whole would be late and the smaller size is enough for what comes; or if all
    are answered sooner on average so, and the rest in time.
    """
    if not at.limits.sizes:
        return limit
    limit = max(at.limits.allowed(limit) or limit, at.head.size)
    items = at.together(limit)
    below = max(at.limits.allowed(items), at.head.size)
    if below >= items:
        return limit
    due = at.soonest.deadline if at.jobs.groups is None else at.head.deadline
    late = at.now + at.predict_with(at.head, items) > due
    cut = (late and _keeps_up(at, below)) or _answers_sooner(at, below, items)
    return below if cut else limit


def _answers_sooner(at: Situation, below: int, items: int) -> bool:
    """Whether a batch of `below` items, and the rest by the next free worker, beats one of all.

    No cut takes more of a worker's time than it saves, of which the rest is taken to need as much
    as in a full batch: until it leaves, other jobs join it.
    """
    head, full = at.head, at.limits.max_batch_size
    smaller, whole = at.predict_with(head, below), at.predict_with(head, items)
    rest = at.predict_with(head, items - below)
    if smaller + (items - below) * at.predict_with(head, full) / full >= whole:
        return False
    wait = 0.0 if at.idle > 1 else min(at.next_free - at.now, smaller)
    if below * smaller + (items - below) * (wait + rest) >= items * whole:
        return False
    behind = at.jobs.first_behind(below, at.terms)
    return at.now + wait + rest * (1.0 + at.margin) <= behind.deadline


def cut_short(at: Situation) -> Situation:
    """The situation in which no batch is padded beyond what waits, if such batches keep up."""
    if not at.limits.sizes or at.items >= at.limits.max_batch_size:
        return at
    below = at.limits.allowed(at.items)
    return at.up_to(below) if below and _keeps_up(at, below) else at


def _keeps_up(at: Situation, size: int) -> bool:
    """Whether the workers keep up with what comes to all queues in batches of that size."""
    return at.all_rate * at.predict(size) <= size * at.capacity


def safe_size(at: Situation, soonest: Job, parameters: CorkParameters) -> int:
    """Items that keep the earliest deadline by what is known, in a batch larger than any was.

    Up to the sizes that were tried, jobs are shed instead: small batches for late jobs waste
    capacity. Before the fit is trusted nothing is shed, and no batch is larger than could be in
    time for a job that has just come.
    """
    limit, patience = at.limits.max_batch_size, soonest.deadline - soonest.arrived
    if at.per_item:
        tried = max(1, round(parameters.extrapolation * at.largest))
        if not at.trusted and at.predict(limit) > patience:
            tried = min(tried, max(1, int((patience - at.fixed) / at.per_item)))
        in_time = ((soonest.deadline - at.now) / (1.0 + at.margin) - at.fixed) / at.per_item
        size = max(tried, at.head.size, int(min(in_time, limit)))
    else:
        size = _first_of_another_size(at, soonest, parameters)
    return _allowed_or_next(at, size) if at.limits.sizes else size


def _allowed_or_next(at: Situation, size: int) -> int:
    """As many items, or those of the next allowed size if smaller batches do not keep up.

    It may be far larger than all that ran: if it were not tried, it would never be known.
    """
    limits = at.limits
    below = max(limits.sizes[0], limits.allowed(size))
    if _keeps_up(at, below):
        return size
    return min(limits.padded(below + 1), limits.max_batch_size)


def _first_of_another_size(at: Situation, soonest: Job, parameters: CorkParameters) -> int:
    """Items that keep the earliest deadline even if the one duration that is known is all slope.

    At least as many as that ran: below it, jobs are shed instead.

    Limits that would then leave room for less than four times that size within the promise are
    taken to say that batches have a fixed part: a full batch is tried.
    """
    limit, patience = at.limits.max_batch_size, soonest.deadline - soonest.arrived
    if 2.0 * parameters.extrapolation * at.fixed > patience or not at.fixed:
        return limit
    in_time = min(limit, at.largest * (soonest.deadline - at.now) / at.fixed)
    return min(limit, max(at.head.size, round(at.largest), int(in_time)))
