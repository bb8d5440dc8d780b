"""How long a batch takes by its size, beyond a straight line."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite

from adaptive_batching.core import next_allowed
from adaptive_batching.units import parse_duration

Curve = Callable[[int], float]
"""The size of a batch in items -> seconds."""

POW2 = tuple(2**power for power in range(31))
"""All powers of two that a batch may have items."""

_LARGEST = 10**18  # items: 64 bits


@dataclass(frozen=True, slots=True)
class Table:
    """Measured at some sizes, straight lines between them, the last line beyond the last.

    Attributes:
        points: Sizes and seconds, sizes increasing.
    """

    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.points]
        if not sizes or sizes[0] < 1 or sizes != sorted(set(sizes)):
            raise ValueError(f"table: expected increasing sizes from 1, got {sizes}")
        if fault := _too_large(sizes):
            raise ValueError(f"table: {fault}")
        if not all(isfinite(seconds) and seconds >= 0 for _, seconds in self.points):
            raise ValueError("table: expected finite seconds of 0 or more")

    def __call__(self, size: int) -> float:
        """Seconds for a batch of that size; below the first point, what the first takes."""
        points = self.points
        above = bisect_left(points, (size, 0.0))
        if above == 0 or len(points) == 1:
            return points[0][1]
        above = min(above, len(points) - 1)
        (lower, least), (upper, most) = points[above - 1], points[above]
        return max(0.0, least + (most - least) * (size - lower) / (upper - lower))


@dataclass(frozen=True, slots=True)
class Padded:
    """Batches are filled up to the next of a few sizes, as compiled models need it.

    Attributes:
        curve: Seconds of the padded batch.
        buckets: Those sizes, increasing; what is larger than the last is not padded.
    """

    curve: Curve
    buckets: tuple[int, ...]

    def __post_init__(self) -> None:
        if fault := _fault_of(self.buckets):
            raise ValueError(f"buckets: {fault}")

    def __call__(self, size: int) -> float:
        """Seconds for a batch of that size."""
        return self.curve(next_allowed(self.buckets, size))


def _too_large(sizes: Iterable[int]) -> str:
    if any(size > _LARGEST for size in sizes):
        return f"expected sizes of {_LARGEST:,} items at the most, got more"
    return ""


def _fault_of(buckets: tuple[int, ...]) -> str:
    """What sizes to pad to should be; empty if they are."""
    if buckets[:1] < (1,) or buckets != tuple(sorted(set(buckets))):
        return f"expected increasing sizes from 1, got {','.join(map(str, buckets))}"
    return _too_large(buckets)


def parse_table(text: str) -> Table:
    """Read `1:5ms,8:5.5ms,64:8ms`.

    Raises:
        ValueError: It isn't sizes and durations.
    """
    points = []
    for point in text.split(","):
        size, colon, duration = point.partition(":")
        if not colon or not size.strip().isdecimal():
            raise ValueError(f"expected SIZE:DURATION,... such as 1:5ms,64:8ms, got {text!r}")
        points.append((int(size), parse_duration(duration)))
    return Table(tuple(points))


def parse_buckets(text: str) -> tuple[int, ...]:
    """Read `8,16,64`, or `pow2` for all powers of two.

    Raises:
        ValueError: It isn't sizes that increase.
    """
    if text == "pow2":
        return POW2
    sizes = [part.strip() for part in text.split(",")]
    if not all(size.isdecimal() for size in sizes):
        raise ValueError(f"expected sizes such as 8,16,64, or pow2, got {text!r}")
    buckets = tuple(map(int, sizes))
    if fault := _fault_of(buckets):
        raise ValueError(fault)
    return buckets
