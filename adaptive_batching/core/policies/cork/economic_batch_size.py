"""When to serve what waits in parts: where items cost much, the first wait long for the last.

Serving N items in batches of n takes N / n batches, each fixed + per_item * n long. An item is
answered with its batch, so on average it waits half of N * fixed / n for the fixed parts and half
of n * per_item for its own batch. The sum is least at n = sqrt(N * fixed / per_item), as for lot
sizes (Harris 1913).
"""

from math import inf, sqrt

from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policy import Situation


def boarding_limit(at: Situation, limit: int, item_rate: float, parameters: CorkParameters) -> int:
    """A full batch; less where its first wait long for its last, or other workers would starve."""
    if at.requests == 1:
        return limit
    economical = economical_size(at, item_rate, parameters)
    if economical < limit:
        limit = max(1, round(economical), at.head.size)
    work = item_rate * at.per_item
    if at.workers == 1 or work <= parameters.long_batches * at.capacity:
        return limit
    equilibrium = item_rate * at.fixed / (at.capacity - work) if work < at.capacity else inf
    boarding = max(1, round(min(parameters.boarding * equilibrium, limit)), at.head.size)
    return limit if at.items > 2 * boarding else min(limit, boarding)


def economical_size(at: Situation, item_rate: float, parameters: CorkParameters) -> float:
    """Items of the batch after which the waiting jobs are answered soonest, on average.

    N is what waits and what comes until the queue is empty, for each worker its share. Compared
    with the optimum for one worker (`simulation/bounds/optimum.py`) by
    `simulations/small_batches.py`.

    Args:
        at: What waits, the workers and how long they take.
        item_rate: Items that arrive in a second.
        parameters: `caution` and `calm`.

    Returns:
        A number of items, not rounded; infinite where nothing is known, or the workers have no time
        to spare for more batches.
    """
    fixed, per_item, capacity = at.fixed, at.per_item, at.capacity
    spare = capacity - item_rate * per_item
    if per_item <= 0 or spare <= 0 or not at.trusted:
        return inf
    busy = (fixed * capacity + per_item * at.items) / spare
    if busy > parameters.calm * at.limits.max_latency:
        return inf
    items = (at.items + item_rate * busy) / capacity
    return parameters.caution * max(sqrt(items * fixed / per_item), item_rate * fixed / spare)
