"""Values of which a model takes a few only, such as sizes of batches, in ascending order."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

N = TypeVar("N", int, float)


def next_allowed(allowed: Sequence[N], value: N) -> N:
    """The next of some values; a value above the last stays as it is."""
    index = bisect_left(allowed, value)
    return allowed[index] if index < len(allowed) else value


def last_allowed(allowed: Sequence[int], value: float) -> int:
    """The largest value that is not larger; 0 if there is none."""
    index = bisect_right(allowed, value)
    return allowed[index - 1] if index else 0


def are_ascending(values: Sequence[float]) -> bool:
    """Whether each value is larger than the one before it, and the first is above 0."""
    return all(smaller < value for smaller, value in pairwise([0, *values]))
