"""When to serve what waits in parts: where items cost much, the first wait long for the last.

Serving N items in batches of n takes N / n batches, each fixed + per_item * n long. An item is
answered with its batch, so on average it waits half of N * fixed / n for the fixed parts and half
of n * per_item for its own batch. The sum is least at n = sqrt(N * fixed / per_item), as for lot
sizes (Harris 1913).
"""

from math import inf, sqrt

from adaptive_batching.core.policy import QueueView

_CAUTION = (
    2.0  # times that size: too large costs little, too small takes capacity from those behind
)
_SPARE = 2.0  # times the smallest size with which the workers keep up
_CALM = 0.5  # of max_latency: if the queue takes longer than that to empty, capacity matters more


def economical_size(queue: QueueView, item_rate: float) -> float:
    """Items of the batch after which those who wait now are answered soonest, on average.

    N is what waits and what comes until the queue is empty, for each worker its share. Compared
    with the optimum for one worker (`simulation/bounds/optimum.py`) by
    `simulations/small_batches.py`.

    Args:
        queue: What waits.
        item_rate: Items that arrive in a second.

    Returns:
        A number of items, not rounded; infinite where nothing is known, or the workers have no time
        to spare for more batches.
    """
    latency, capacity = queue.latency, queue.capacity
    fixed, per_item = latency.fixed, latency.per_item
    spare = capacity - item_rate * per_item
    if per_item <= 0 or spare <= 0 or not latency.trusted:
        return inf
    busy = (fixed * capacity + per_item * queue.items) / spare
    if busy > _CALM * queue.limits.max_latency:
        return inf
    items = (queue.items + item_rate * busy) / capacity
    return max(_CAUTION * sqrt(items * fixed / per_item), _SPARE * equilibrium(queue, item_rate))


def equilibrium(queue: QueueView, item_rate: float) -> float:
    """Items of the smallest batches with which the workers keep up; infinite if none do.

    Args:
        queue: Of which the workers and their latency are looked at.
        item_rate: Items that arrive in a second.
    """
    spare = queue.capacity - item_rate * queue.latency.per_item
    return item_rate * queue.latency.fixed / spare if spare > 0 else inf
