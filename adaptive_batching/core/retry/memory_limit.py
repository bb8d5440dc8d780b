"""How large batches of one key may be for a memory that turned out to be too small."""

from adaptive_batching.core.job import Batch, Outcome, Reason

_FIRST_WAIT = 10.0  # seconds until a larger batch is tried
_LONGEST_WAIT = 600.0  # seconds; each trial that fails costs requests a second run
_STEP = 4  # a trial adds a quarter


class MemoryLimit:
    """Halves when memory runs out, and seeks its way up again, more rarely each time that fails.

    Args:
        most: Items that a batch may have at all.

    Attributes:
        items: That a batch may have now.
    """

    __slots__ = ("_before", "_failed_part", "_known", "_most", "_next_trial", "_wait", "items")

    def __init__(self, most: int) -> None:
        self.items = most
        self._most = self._before = most
        self._failed_part = 0  # items of the part of that batch which failed last
        self._known = 0  # items of the largest batch since the first failure that had room
        self._wait = _FIRST_WAIT
        self._next_trial = 0.0

    def __repr__(self) -> str:
        return f"<MemoryLimit {self.items} of {self._most}>"

    def ended(self, batch: Batch, outcome: Outcome, now: float) -> None:
        """A batch of its key has ended, or one of the parts in which a batch runs again."""
        if outcome is Outcome.OUT_OF_MEMORY:
            if len(batch.jobs) == 1:
                self.absolved()
            elif batch.reason is Reason.BISECT:
                self.part_exceeded(batch.size, now)
            else:
                self.exceeded(batch.size, now)
        elif outcome is Outcome.DONE:
            self.kept(batch.size, now)

    def exceeded(self, size: int, now: float) -> None:
        """Memory ran out over a batch of `size` items."""
        if size > self.items:
            return  # it left before the cap fell
        self._before, self._failed_part = self.items, 0
        self._fall(size, now)

    def part_exceeded(self, size: int, now: float) -> None:
        """It ran out over a part of such a batch, too: over both halves, it is for their size."""
        if abs(size - self._failed_part) <= 1:
            self._fall(size, now)
        else:
            self._failed_part = size

    def absolved(self) -> None:
        """A request alone had no room either: it is to blame, not how large the last batch was."""
        self.items = max(self.items, self._before)

    def kept(self, size: int, now: float) -> None:
        """A batch of `size` items had room; one at the cap lets a larger one be tried in time."""
        if size > self.items:
            return
        self._known = max(self._known, size)
        if size == self.items and now >= self._next_trial:
            self.items = min(self._most, size + max(1, size // _STEP))
            self._next_trial = now + self._wait

    def _fall(self, size: int, now: float) -> None:
        trial_failed = 0 < self._known < size
        self.items = self._known if trial_failed else max(1, size // 2)
        self._known = min(self._known, self.items)
        if trial_failed:
            self._wait = min(2 * self._wait, _LONGEST_WAIT)
        self._next_trial = now + self._wait
