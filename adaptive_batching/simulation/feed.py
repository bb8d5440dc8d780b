"""Where jobs come from: blocks of arrivals, checked in turn, or answers that call again.

The engine reads a list with a sentinel at its end; here that list is filled again, so that traffic
of any length takes the memory of one block.
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf

import numpy as np

from adaptive_batching.simulation.closed_loop import ClosedLoop

_BLOCK = 16_384  # arrivals


class Feed:
    """The next arrivals, always at least the next one, and the items that each brings.

    Raises:
        ValueError: The arrivals are not in order, a number isn't finite or the lengths differ.
    """

    def __init__(
        self, arrivals: Iterable[float] | ClosedLoop, sizes: Iterable[int] | None = None
    ) -> None:
        self.times: list[float] = [inf]  # the sentinel saves a bounds check for every job
        self.sizes: list[int] = []
        self._loop = arrivals if isinstance(arrivals, ClosedLoop) else None
        times = arrivals.begin() if isinstance(arrivals, ClosedLoop) else arrivals
        self._blocks = _blocks(times, sizes)
        self.refill()

    def refill(self) -> bool:
        """Forget what has come and fetch the next block, in place; False if nothing follows yet."""
        times, sizes = next(self._blocks, ([], []))
        self.times[:-1] = times
        self.sizes[:] = sizes
        return bool(times)

    def answered(self, jobs: int, now: float, come: int) -> None:
        """So many users know how they fared; those of a closed loop will call again.

        Args:
            jobs: How many.
            now: When (seconds).
            come: Arrivals of the present block that are not to be moved any more.
        """
        if self._loop is None:
            return
        for time in self._loop.again(jobs, now):
            insort(self.times, time, lo=come)
            self.sizes.append(1)


def _blocks(
    arrivals: Iterable[float], sizes: Iterable[int] | None
) -> Iterator[tuple[list[float], list[int]]]:
    each = None if sizes is None else iter(sizes)
    newest = -inf
    come = 0
    for times in _cut(arrivals):
        _check(times, newest)
        newest = times[-1]
        come += len(times)
        if each is None:
            yield times, [1] * len(times)
            continue
        brought = [int(size) for size in islice(each, len(times))]
        if len(brought) != len(times):
            got = come - len(times) + len(brought)
            raise ValueError(f"sizes: expected one for each of {come} arrivals, got {got}")
        yield times, brought
    if each is not None and next(each, None) is not None:
        raise ValueError(f"sizes: expected one for each of {come} arrivals, got more")


def _cut(arrivals: Iterable[float]) -> Iterator[list[float]]:
    if isinstance(arrivals, np.ndarray):
        for first in range(0, len(arrivals), _BLOCK):
            yield arrivals[first : first + _BLOCK].astype(float).tolist()
        return
    rest = iter(arrivals)
    while block := [float(time) for time in islice(rest, _BLOCK)]:
        yield block


def _check(block: list[float], newest: float) -> None:
    times = np.array([newest, *block])
    if not np.isfinite(times[1:]).all():
        raise ValueError("arrivals: expected finite seconds, got NaN or infinity")
    if (times[1:] < times[:-1]).any():
        later = int(np.argmax(times[1:] < times[:-1]))
        msg = f"arrivals: expected times in order, got {block[later]} after {times[later]}"
        raise ValueError(msg)
