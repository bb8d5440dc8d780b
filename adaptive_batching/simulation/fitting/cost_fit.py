"""What the costs of items add to a batch, learned from recorded batches."""

from dataclasses import dataclass

import numpy as np

from adaptive_batching.simulation.fitting.robust_line import (
    Array,
    FittedPlane,
    Interval,
    fit_line,
    fit_plane,
)


@dataclass(frozen=True, slots=True)
class CostFit:
    """The third coefficient of `duration = fixed + per_item * size + per_cost * cost`.

    Attributes:
        per_cost: Seconds that each unit of a batch's cost adds.
        padded: Whether a batch costs its items times the largest of their costs, which explains
            the durations better than their sum.
        mean_cost: What batches cost for each of their items.
        error: How far off the model is for half of the batches that it was not learned from,
            relative.
        error_by_size: How far off the best line by size alone is, likewise.
    """

    per_cost: Interval
    padded: bool
    mean_cost: float
    error: float
    error_by_size: float


@dataclass(frozen=True, slots=True)
class ByCost:
    """A fit, and what else it takes to build a model on it.

    Attributes:
        told: What is to be told of it.
        plane: Of all batches.
        half: Of every other batch.
        costs: Of each batch.
    """

    told: CostFit
    plane: FittedPlane
    half: FittedPlane
    costs: Array

    @property
    def seconds(self) -> Array:
        """What its cost added to each batch."""
        return self.plane.per_cost.value * self.costs


def fit_costs(sizes: Array, sums: Array, largest: Array, seconds: Array) -> ByCost | None:
    """Learn what costs add to batches, and whether they are padded.

    Args:
        sizes: Items of each batch.
        sums: What its items cost together.
        largest: The largest of their costs.
        seconds: What it took.

    Returns:
        None if the costs explain nothing that the sizes don't.
    """
    by_size = _error(fit_line(sizes[::2], seconds[::2]).predict(sizes[1::2]), seconds[1::2])
    known = [
        each
        for padded, costs in ((False, sums), (True, sizes * largest))
        if (each := _fitted(sizes, costs, seconds, by_size, padded=padded)) is not None
    ]
    best = min(known, key=lambda each: each.told.error, default=None)
    return None if best is None or best.told.error >= by_size else best


def costs_are_unknown(
    sizes: Array, sums: Array, largest: Array, seconds: Array, share: float
) -> bool:
    """Whether costs that `fit_costs` found no use for may still add this share of the durations.

    They vary too little beyond the sizes to tell. Costs of zero add nothing.
    """
    if not sums.any():
        return False
    most = share * float(np.median(seconds))
    for costs in (sums, sizes * largest):
        plane = fit_plane(sizes, costs, seconds)
        if plane is None or plane.per_cost.high * float(np.median(costs)) > most:
            return True
    return False


def _fitted(
    sizes: Array, costs: Array, seconds: Array, by_size: float, *, padded: bool
) -> ByCost | None:
    plane = fit_plane(sizes, costs, seconds)
    half = fit_plane(sizes[::2], costs[::2], seconds[::2])
    if plane is None or half is None or not plane.per_cost.low > 0:
        return None
    error = _error(half.predict(sizes[1::2], costs[1::2]), seconds[1::2])
    mean_cost = float(costs.sum() / sizes.sum())
    return ByCost(CostFit(plane.per_cost, padded, mean_cost, error, by_size), plane, half, costs)


def _error(expected: Array, seconds: Array) -> float:
    """The relative error that half of the batches exceed."""
    return float(np.median(np.abs(seconds / expected - 1.0)))
