"""How large batches of one key may be for a memory that turned out to be too small."""

from collections.abc import Sequence

from adaptive_batching.core.allowed import last_allowed, next_allowed
from adaptive_batching.core.job import Batch, Outcome, Reason

_FIRST_WAIT = 10.0  # seconds until a larger batch is tried
_LONGEST_WAIT = 600.0  # seconds; each trial that fails costs requests a second run
_STEP = 4  # a trial adds a quarter
_ROUNDING = 1e-12  # relative; more than sums of the same costs in other orders differ by
_ALIKE = 1.5  # times the cost of the other half at the most; a half of that half has a half


class MemoryLimit:
    """Halves when memory runs out, and seeks its way up again, more rarely each time that fails.

    A batch is as large as it is run: a model that runs a few sizes only needs memory for those.

    Args:
        most: Items that a batch may have at all.
        sizes: Those that the model runs, in ascending order; empty if it runs any.

    Attributes:
        limit: What a batch may have now: items, or what they cost.
    """

    __slots__ = (
        "_before", "_failed_part", "_known", "_most", "_next_trial", "_sizes", "_wait", "limit",
    )  # fmt: skip

    def __init__(self, most: float, sizes: Sequence[int] = ()) -> None:
        self.limit = most
        self._most = self._before = most
        self._sizes = sizes
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
                self.part_exceeded(size, self._half(batch), self._part(batch), now)
            else:
                self.exceeded(size, self._half(batch), now)
        elif outcome is Outcome.DONE:
            self.kept(size, self._next_size(batch), now)

    def exceeded(self, size: float, half: float, now: float) -> None:
        """Memory ran out over a batch.

        Args:
            size: How large it was.
            half: How large half of it would be as it is run.
            now: The present (seconds).
        """
        if size > self.limit:
            return  # it left before the cap fell
        self._before, self._failed_part = self.limit, 0.0
        self._fall(size, half, now)

    def part_exceeded(self, size: float, half: float, part: float, now: float) -> None:
        """It ran out over a part of a batch, too: over both halves, it is for their size.

        Args:
            size: How large the part is as it is run.
            half: How large half of it would be.
            part: How large it is without what fills it up.
            now: The present (seconds).
        """
        if self._alike(part, self._failed_part):
            self._fall(size, half, now)
        else:
            self._failed_part = part

    def absolved(self) -> None:
        """A request alone had no room either: it is to blame, not how large the last batch was."""
        self.limit = max(self.limit, self._before)

    def kept(self, size: float, next_size: float, now: float) -> None:
        """A batch had room; the largest that the limit allows lets a larger one be tried in time.

        Args:
            size: How large the batch was.
            next_size: How large the next larger one would be.
            now: The present (seconds).
        """
        if size > self.limit:
            return
        self._known = max(self._known, size)
        if next_size > self.limit and now >= self._next_trial:
            self.limit = min(self._most, max(next_size, self._larger(self.limit)))
            self._next_trial = now + self._wait

    def _fall(self, size: float, half: float, now: float) -> None:
        trial_failed = 0 < self._known < size
        self.limit = self._known if trial_failed else half
        self._known = min(self._known, self.limit)
        if trial_failed:
            self._wait = min(2 * self._wait, _LONGEST_WAIT)
        self._next_trial = now + self._wait

    def _size(self, batch: Batch) -> float:
        return batch.padded_size

    def _part(self, batch: Batch) -> float:
        return batch.size

    def _next_size(self, batch: Batch) -> float:
        return next_allowed(self._sizes, batch.padded_size + 1)

    def _half(self, batch: Batch) -> float:
        half = max(1, batch.padded_size // 2)
        return last_allowed(self._sizes, half) or next_allowed(self._sizes, half)

    def _larger(self, size: float) -> float:
        return next_allowed(self._sizes, size + max(1, size // _STEP))

    def _alike(self, size: float, other: float) -> bool:
        """Whether two parts are halves of the same batch."""
        return abs(size - other) <= 1


class CostMemoryLimit(MemoryLimit):
    """Counts what batches cost, in any unit: there need be no smallest cost, nor a largest.

    A batch that costs nothing takes no memory: that it ran out is no fault of its size.

    Args:
        most: What a batch may cost at all.
        sizes: See `MemoryLimit`.
    """

    __slots__ = ()

    def ended(self, batch: Batch, outcome: Outcome, now: float) -> None:
        """A batch of its key has ended, or one of the parts in which a batch runs again."""
        if batch.cost > 0:
            super().ended(batch, outcome, now)

    def _size(self, batch: Batch) -> float:
        return batch.cost

    def _part(self, batch: Batch) -> float:
        return batch.own_cost

    def _next_size(self, batch: Batch) -> float:
        """A quarter more, or one more item: it may have been too much."""
        items = next_allowed(self._sizes, batch.padded_size + 1)
        return max(self._larger(batch.cost), batch.cost * items / batch.padded_size)

    def _half(self, batch: Batch) -> float:
        least = next_allowed(self._sizes, 1) / batch.padded_size if self._sizes else 0.0
        return batch.cost * max(0.5, least) * (1 + _ROUNDING)

    def _larger(self, size: float) -> float:
        return size * (1 + 1 / _STEP)

    def _alike(self, size: float, other: float) -> bool:
        return max(size, other) <= _ALIKE * min(size, other)
