"""Which jobs should share a batch, where a batch takes as long as its costliest item makes it."""

from collections.abc import Sequence
from math import ceil, inf
from typing import NamedTuple


class Run(NamedTuple):
    """Groups of jobs, next to each other by cost, that are best run together.

    Attributes:
        first: Index of the cheapest group.
        last: Index of the costliest group.
        items: Of all of them.
        cost: What each item of its batches costs; where they are padded, the largest cost.
        limit: Items that one of its batches may have.
    """

    first: int
    last: int
    items: int
    cost: float
    limit: int


def best_runs(
    groups: Sequence[tuple[float, int]], fixed: float, per_cost: float, limits: Sequence[int]
) -> list[Run]:
    """Divide groups of jobs into runs so that the worker is busy for the shortest time.

    Whatever the duration of a padded batch is, as long as it grows with the number of items and
    with the largest cost, some shortest division is into neighbours by cost: to exchange two jobs
    between batches so that both are sorted makes neither longer. It is found by dynamic programming
    over the overheads: what is padded, and the fixed part of each batch.

    Args:
        groups: The largest cost of an item, and the number of items, by increasing cost.
        fixed: Seconds that any batch takes.
        per_cost: Seconds that each unit of cost adds.
        limits: Items of a batch at the most, if that group is the costliest in it.
    """
    overheads = [0.0] * (len(groups) + 1)  # seconds, for the first so many groups
    begins = [0] * len(groups)  # the first group of the run that ends with each
    for last, (cost, _) in enumerate(groups):
        best, begin, items, padded = inf, last, 0, 0.0
        for first in range(last, -1, -1):
            own_cost, own_items = groups[first]
            items += own_items
            padded += per_cost * own_items * (cost - own_cost)
            overhead = fixed * ceil(items / limits[last]) + padded
            if overhead > best:
                break  # and those that begin even sooner take longer still
            if overheads[first] + overhead <= best:
                best, begin = overheads[first] + overhead, first
        overheads[last + 1] = best
        begins[last] = begin
    runs, last = [], len(groups) - 1
    while last >= 0:
        first = begins[last]
        items = sum(items for _, items in groups[first : last + 1])
        runs.append(Run(first, last, items, groups[last][0], limits[last]))
        last = first - 1
    return runs[::-1]
