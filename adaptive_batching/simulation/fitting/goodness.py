"""How good a latency model is: where it is wrong and in which direction, not R².

With batches of nearly one size R² is near zero for a perfect model; and what a scheduler needs is
the error at the sizes in use, at the largest one, and a margin that holds as often as it says.
"""

from dataclasses import dataclass

import numpy as np

from adaptive_batching.simulation.fitting.robust_line import Array

_QUANTILE = 0.9  # of the margin; 0.99 would be the pauses of the machine
_ENOUGH = 20  # batches whose median is no accident; rarer sizes are judged with their neighbours


@dataclass(frozen=True, slots=True)
class Goodness:
    """How good a model is on batches that it was not learned from.

    Errors are relative, positive if the model says too much, against the median of each size; rare
    sizes are judged together with their neighbours.

    Attributes:
        error_p50: The signed error that half of the batches' sizes exceed.
        error_p95: The absolute error that one batch's size in twenty exceeds.
        error_at_largest: The signed error at the largest size.
        largest: That size (items).
        margin: How much longer than predicted nine batches in ten stayed below, relative, while
            learning (0.1 = 10 %).
        coverage: Share of the other batches that stayed below it as well; 0.9 is right.
        coverage_doubt: What chance alone adds to or takes from it, in 95 cases of 100.
    """

    error_p50: float
    error_p95: float
    error_at_largest: float
    largest: int
    margin: float
    coverage: float
    coverage_doubt: float


def judged(sizes: Array, learned: Array, kept: Array) -> Goodness:
    """Hold a model against batches, by how many times as long as predicted they took.

    Args:
        sizes: Of the batches that it has not seen.
        learned: Ratios of the batches that it was learned from, and so what its margin is.
        kept: Ratios of those that it has not seen.
    """
    errors, counts = _errors(sizes, kept)
    each = np.repeat(errors, counts)
    margin = float(np.quantile(learned, _QUANTILE)) - 1
    below = float(np.mean(kept <= 1 + margin))
    return Goodness(
        error_p50=float(np.median(each)),
        error_p95=float(np.quantile(np.abs(each), 0.95)),
        error_at_largest=float(errors[-1]),
        largest=int(sizes.max()),
        margin=margin,
        coverage=below,
        # Twice the variance of a share: the margin comes from as many batches by chance.
        coverage_doubt=1.96 * float(np.sqrt(2 * _QUANTILE * (1 - _QUANTILE) / len(kept))),
    )


def _errors(sizes: Array, ratios: Array) -> tuple[list[float], list[int]]:
    """The error of each size that is common enough, from the smallest up, and its batches."""
    errors: list[float] = []
    counts: list[int] = []
    order = np.argsort(sizes, kind="stable")
    _, first = np.unique(sizes[order], return_index=True)
    begin = 0
    for end in [*first[1:].tolist(), len(sizes)]:
        if end - begin >= _ENOUGH or (end == len(sizes) and not errors):
            errors.append(1.0 / float(np.median(ratios[order[begin:end]])) - 1.0)
            counts.append(end - begin)
            begin = end
    return errors, counts
