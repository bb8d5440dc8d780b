"""What a clairvoyant could have done: the most requests that anyone can answer in time.

A server that knows all arrivals loses nothing by serving them in order, if deadlines come in that
order. A batch started at s that takes d can hold what arrived until s and is due from s + d on;
both ends of that window move forward from batch to batch, so its members may as well be the
earliest that it can hold, and what it skips is dead for all later batches. So a state is "the first
i are settled, dropped of them are given up", its value the earliest instant at which the worker is
free, and a step is to drop one or to run the next m. Where deadlines come in another order, each is
taken for as late as any before it, which makes it a bound; a request without one can come last.

Several workers are bounded by one that is as fast as all of them together. Run their batches on it
in the order of their starts: one of them ends later than it did by at most the work that the others
had in hand when it ended, (workers - 1) / workers * (longest - shortest batch). With deadlines
relaxed by that much the argument above holds again.
"""

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from adaptive_batching.simulation.traffic.arrivals import Times

_ROUNDING = 1 + 1e-9  # of capacity and patience: a bound may be too high and never too low
_ROUNDING_OF_TIMES = 1e-12  # thirds of a second don't add up to one: that must not cost a job


def on_time_at_most(
    times: Times,
    duration: Callable[[int], float],
    *,
    due: Times,
    max_batch_size: int,
    workers: int = 1,
    sizes: Sequence[int] | None = None,
) -> tuple[int, bool]:
    """How many jobs can be answered in time, and whether that is exact or only an upper bound.

    It is exact for one worker and jobs of one size whose deadlines come in order. For jobs of
    several sizes each is taken for as small as the smallest, because a server that knows all may
    serve the small ones first; and where a larger batch takes less time, a smaller one is taken to
    last no longer.

    Args:
        times: When the jobs arrive (seconds), in order.
        duration: Seconds for a batch of so many items.
        due: Their deadlines (seconds).
        max_batch_size: Items.
        workers: Batches that may run at the same time.
        sizes: Items of each job; 1 each if None.
    """
    items = np.ones(len(times), np.int64) if sizes is None else np.asarray(sizes, np.int64)
    fitting = items <= max_batch_size
    timed = fitting & (due < inf)
    unhurried = int(fitting.sum() - timed.sum())  # they can come last, after all others
    times, due, items = times[timed], due[timed], items[timed]
    if not len(times):
        return unhurried, True
    latest = np.maximum.accumulate(due)
    lasting = np.array([duration(size) for size in range(1, max_batch_size + 1)])
    least = np.minimum.accumulate(lasting[::-1])[::-1]
    small = int(items.min())
    durations = least[small - 1 :: small]
    alike = (items == small).all() and (latest == due).all()
    if workers == 1 and alike and (least == lasting).all():
        return unhurried + most_on_time(times, durations, due), True
    slack = (workers - 1) / workers * float(lasting.max() - durations[0])
    patience = (latest - times + slack) * _ROUNDING + abs(float(times[-1])) * _ROUNDING_OF_TIMES
    bound = most_on_time(times, durations / workers, np.maximum.accumulate(times + patience))
    seconds = workers * (latest[-1] - times[0])
    per_item = (lasting / np.arange(1, max_batch_size + 1)).min()
    work = np.cumsum(np.sort(items)) * per_item
    bound = min(bound, int(np.searchsorted(work, seconds * _ROUNDING, "right")))
    return unhurried + bound, False


def most_on_time(times: Times, durations: Times, due: Times) -> int:
    """The most jobs that one worker can answer in time, exactly.

    O(jobs * batch * backlog) time, O(batch * backlog) memory: of each state only those drop counts
    are kept that are possible and don't yet leave the worker idle.

    Args:
        times: When the jobs arrive (seconds), in order.
        durations: Seconds for a batch of 1, 2, ... jobs, non-decreasing.
        due: Their deadlines (seconds), finite and in the order of the arrivals.
    """
    reach = _reach(times, due, durations)
    batch = max(reach, default=0) or 1
    longest_first = durations[:batch][::-1, np.newaxis]
    table = _Table(batch)
    following = np.append(times[1:], -inf)  # the last row is kept whole: nothing follows it
    for index, (arrived, upcoming) in enumerate(zip(times, following, strict=True)):
        rows = table.last(max(reach[index], 1))
        ends = np.maximum(rows, arrived)
        ends += longest_first[-len(rows) :]
        ends[ends > due[index + 1 - len(rows) : index + 1, np.newaxis]] = inf
        free = ends.min(axis=0)
        np.minimum(free[1:], rows[-1, :-1], out=free[1:])
        free[free <= upcoming] = -inf
        table.append(free)
    return len(times) - table.least


def _reach(times: Times, due: Times, durations: Times) -> list[int]:
    """The largest batch whose newest job is this one and whose oldest can still be in time."""
    reach = np.zeros(len(times), np.int64)
    for size, duration in enumerate(durations[: len(times)], 1):
        newest = times[size - 1 :]
        possible = newest + duration <= due[: len(newest)]
        if not possible.any():
            break  # nor is a larger one: it spans more and takes no less
        reach[size - 1 :][possible] = size
    sizes: list[int] = reach.tolist()
    return sizes


class _Table:
    """When the worker is free: a row for each of the last jobs, a column for each drop count.

    Infinite where so few drops are impossible, minus infinity where the worker is idle anyway. With
    each job the least possible count and the idle one grow by one at most.
    """

    def __init__(self, batch: int) -> None:
        self.least = 0
        """Drops without which the jobs so far can't be settled."""
        self._idle = 0
        self._batch = batch
        self._origin = 0  # the count of the first column
        self._cells = np.full((16 * batch, 64), -inf)
        self._filled = 1

    def last(self, rows: int) -> Times:
        """The last rows, from the least count to one beyond the idle one."""
        first = self.least - self._origin
        beyond = self._idle + 2 - self._origin
        if beyond > self._cells.shape[1]:
            self._move(beyond - first)
            first, beyond = 0, beyond - first
        return self._cells[self._filled - rows : self._filled, first:beyond]

    def append(self, free: Times) -> None:
        """Add a row for the columns of `last`."""
        if self._filled == len(self._cells):
            self._cells[: self._batch] = self._cells[-self._batch :]
            self._filled = self._batch
        first = self.least - self._origin
        row = self._cells[self._filled]
        row[:] = -inf
        row[first : first + len(free)] = free
        self._filled += 1
        self._idle = self.least + int(free.argmin())
        self.least += int(free[0] == inf)

    def _move(self, width: int) -> None:
        """Forget the columns that are impossible by now, and make room for more."""
        kept = self._cells[:, self.least - self._origin :]
        self._cells = np.full((len(kept), max(256, 4 * width)), -inf)
        self._cells[:, : kept.shape[1]] = kept
        self._origin = self.least
