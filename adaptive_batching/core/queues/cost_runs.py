"""Which jobs should share a batch, where a batch takes as long as its costliest item makes it."""

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from math import inf
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
    runs: list[Run] = []
    until = list(accumulate([items for _, items in groups], initial=0))
    firsts = _first_of_runs(groups, fixed, per_cost, limits)
    last = len(groups) - 1
    while last >= 0:
        first = firsts[last]
        items = until[last + 1] - until[first]
        runs.append(Run(first, last, items, groups[last][0], limits[last]))
        last = first - 1
    return runs[::-1]


def _first_of_runs(
    groups: Sequence[tuple[float, int]], fixed: float, per_cost: float, limits: Sequence[int]
) -> list[int]:
    """For each group, the first of the run that ends with it in the best division up to it."""
    firsts, overhead_so_far, total = list[int](), 0.0, 0
    before = deque[tuple[float, int, float, float, int]]()  # the costliest first
    largest_batch = max(limits)
    for last, ((cost, count), limit) in enumerate(zip(groups, limits, strict=True)):
        before.appendleft((cost, count, per_cost * count, overhead_so_far, last))
        total += count
        unpadded = -fixed * (-total // largest_batch)  # in the best of cases, for so many items
        best, spare, begin, items, padded = inf, inf, last, 0, 0.0
        for own_cost, own_items, per_unit, overhead_until, first in before:
            padded += per_unit * (cost - own_cost)
            if padded > spare:
                break  # and those that begin even sooner take longer still
            items += own_items
            overhead = overhead_until + padded - fixed * (-items // limit)
            if overhead <= best:
                best, begin, spare = overhead, first, overhead - unpadded
        overhead_so_far = best
        firsts.append(begin)
    return firsts
