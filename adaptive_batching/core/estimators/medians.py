"""Medians: `statistics` has them too, and takes as long to import as all estimators together."""

from collections.abc import Iterable


def median(values: Iterable[float]) -> float:
    """The value in the middle, or the mean of the two that are; there must be at least one."""
    ranked = sorted(values)
    middle = len(ranked) // 2
    return (ranked[middle] + ranked[~middle]) / 2


def median_low(values: Iterable[float]) -> float:
    """The value in the middle, or the lower of the two that are; there must be at least one."""
    ranked = sorted(values)
    return ranked[(len(ranked) - 1) // 2]
