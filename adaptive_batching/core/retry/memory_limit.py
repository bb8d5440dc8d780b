"""How large batches of one key may be for a memory that turned out to be too small."""

from adaptive_batching.core.job import Batch, Outcome, Reason

_FIRST_WAIT = 10.0  # seconds until a larger batch is tried
_LONGEST_WAIT = 600.0  # seconds; each trial that fails costs requests a second run
_STEP = 4  # a trial adds a quarter
_ALIKE = 1.5  # times the cost of the other half at the most; a half of that half has a half


class MemoryLimit:
    """Halves when memory runs out, and seeks its way up again, more rarely each time that fails.

    Args:
        most: Items that a batch may have at all.

    Attributes:
        limit: What a batch may have now: items, or what they cost.
    """

    __slots__ = ("_before", "_failed_part", "_known", "_most", "_next_trial", "_wait", "limit")

    def __init__(self, most: float) -> None:
        self.limit = most
        self._most = self._before = most
        self._failed_part = 0.0  # how large the part of that batch was which failed last
        self._known = 0.0  # how large the largest batch was since the first failure that had room
        self._wait = _FIRST_WAIT
        self._next_trial = 0.0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.limit} of {self._most}>"

    @property
    def lifted(self) -> bool:
        """Whether batches may be as large as they might be without it."""
        return self.limit >= self._most

    def ended(self, batch: Batch, outcome: Outcome, now: float) -> None:
        """A batch of its key has ended, or one of the parts in which a batch runs again."""
        size = self._size(batch)
        if outcome is Outcome.OUT_OF_MEMORY:
            if len(batch.jobs) == 1:
                self.absolved()
            elif batch.reason is Reason.BISECT:
                self.part_exceeded(size, now)
            else:
                self.exceeded(size, now)
        elif outcome is Outcome.DONE:
            self.kept(size, now)

    def exceeded(self, size: float, now: float) -> None:
        """Memory ran out over a batch of such a size."""
        if size > self.limit:
            return  # it left before the cap fell
        self._before, self._failed_part = self.limit, 0.0
        self._fall(size, now)

    def part_exceeded(self, size: float, now: float) -> None:
        """It ran out over a part of such a batch, too: over both halves, it is for their size."""
        if self._alike(size, self._failed_part):
            self._fall(size, now)
        else:
            self._failed_part = size

    def absolved(self) -> None:
        """A request alone had no room either: it is to blame, not how large the last batch was."""
        self.limit = max(self.limit, self._before)

    def kept(self, size: float, now: float) -> None:
        """A batch of such a size had room; one at the cap lets a larger one be tried in time."""
        if size > self.limit:
            return
        self._known = max(self._known, size)
        if self._full(size) and now >= self._next_trial:
            self.limit = min(self._most, self._larger(self.limit))
            self._next_trial = now + self._wait

    def _fall(self, size: float, now: float) -> None:
        trial_failed = 0 < self._known < size
        self.limit = self._known if trial_failed else self._half(size)
        self._known = min(self._known, self.limit)
        if trial_failed:
            self._wait = min(2 * self._wait, _LONGEST_WAIT)
        self._next_trial = now + self._wait

    def _size(self, batch: Batch) -> float:
        return batch.size

    def _full(self, size: float) -> bool:
        """Whether a batch is as large as it may be."""
        return size == self.limit

    def _half(self, size: float) -> float:
        return max(1, size // 2)

    def _larger(self, size: float) -> float:
        return size + max(1, size // _STEP)

    def _alike(self, size: float, other: float) -> bool:
        """Whether two parts are halves of the same batch."""
        return abs(size - other) <= 1


class CostMemoryLimit(MemoryLimit):
    """Counts what batches cost, in any unit: there need be no smallest cost, nor a largest.

    A batch that costs nothing takes no memory: that it ran out is no fault of its size.

    Args:
        most: What a batch may cost at all.
    """

    __slots__ = ()

    def ended(self, batch: Batch, outcome: Outcome, now: float) -> None:
        """A batch of its key has ended, or one of the parts in which a batch runs again."""
        if batch.cost > 0:
            super().ended(batch, outcome, now)

    def _size(self, batch: Batch) -> float:
        return batch.cost

    def _full(self, size: float) -> bool:
        """Whether it is nearly as large as it may be: one more item may have been too much."""
        return size * (1 + 1 / _STEP) >= self.limit

    def _half(self, size: float) -> float:
        return size / 2

    def _larger(self, size: float) -> float:
        return size * (1 + 1 / _STEP)

    def _alike(self, size: float, other: float) -> bool:
        return max(size, other) <= _ALIKE * min(size, other)
