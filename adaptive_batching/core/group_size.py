"""How large batches of one key are best, for some items make the batches fail that they are in.

The search for a guilty one costs runs, the more of them the larger the batch was; with small
batches, more of them are needed for all. In between is what costs least: with one guilty item in
twenty, batches of 8 to 16 where a batch of 64 would take twice as long as one of a single item.
"""

from adaptive_batching.core.job import Batch, Outcome, Reason
from adaptive_batching.core.latency import LinearLatency

_KEPT = 0.98  # of what was seen before, at each batch: it is about the last 50
_NEGLIGIBLE = 0.01  # guilty items; a failure is forgotten after some 230 batches
_ABOUT = 1.05  # times the least is as good: a few guilty ones do not make batches smaller
_HOPELESS = 16  # runs in a row that gave no answer: it is not for the items that they failed


class GroupSize:
    """Learns how many items are guilty, and which size of batches has the least work for each.

    Args:
        most: Items that a batch may have at all.
        line: How long batches take.

    Attributes:
        items: That a batch should have at the most.
    """

    __slots__ = ("_failed_in_a_row", "_guilty", "_line", "_most", "_seen", "_sizes", "items")

    def __init__(self, most: int, line: LinearLatency) -> None:
        self.items = most
        self._most = most
        self._sizes = _halvings(most)
        self._line = line
        self._seen = self._guilty = 0.0  # items, of late
        self._failed_in_a_row = 0

    def __repr__(self) -> str:
        return f"<GroupSize {self.items} of {self._most}, {self.rate:.1%} guilty>"

    @property
    def rate(self) -> float:
        """Share of items that are guilty; as if another full batch had been answered."""
        return self._guilty / (self._seen + self._most)

    @property
    def needed(self) -> bool:
        """Whether anybody was guilty of late."""
        return self._guilty > _NEGLIGIBLE or self._failed_in_a_row > 0

    def ended(self, batch: Batch, outcome: Outcome) -> None:
        """A batch of its key has ended, or one of the parts in which a batch runs again."""
        if outcome is Outcome.DONE:
            self._failed_in_a_row = 0
        elif outcome is Outcome.FAILED:
            self._failed_in_a_row += 1
        else:
            return
        # Parts of a batch that failed are no sample: there is more guilt in them than elsewhere.
        if batch.reason is not Reason.BISECT:
            self._learn(batch.size, failed=outcome is Outcome.FAILED)
        if self._failed_in_a_row >= _HOPELESS:
            self._guilty = 0.0
        self.items = self._best()

    def _learn(self, size: int, *, failed: bool) -> None:
        """One step of expectation maximisation (Dempster et al. 1977): a group says yes or no."""
        rate = self.rate
        found = 0.0
        if failed:  # how many are guilty in a group of which it is known that somebody is
            found = size * rate / (1.0 - (1.0 - rate) ** size) if rate else 1.0
        self._seen = _KEPT * self._seen + size
        self._guilty = _KEPT * self._guilty + found

    def _best(self) -> int:
        """The size for which an item costs the least time of a worker.

        A batch of n that has nobody guilty in it runs once. Otherwise its halves run as well, which
        takes as long as if they had come by themselves, less what they would have taken then where
        the batch was clean: search(n) = run(n) + 2 search(n/2) - 2 clean(n) run(n/2).
        """
        innocent = 1.0 - self.rate
        costs: list[tuple[int, float]] = []
        run_half = search_half = 0.0
        for size in self._sizes:
            run = search = self._line.predict(size)
            if size > 1:
                search += 2.0 * (search_half - innocent**size * run_half)
            costs.append((size, search / size))
            run_half, search_half = run, search
        least = min(cost for _, cost in costs)
        return max(size for size, cost in costs if cost <= _ABOUT * least)


def _halvings(most: int) -> list[int]:
    """The sizes that parts of the largest batch have, smallest first."""
    sizes = [most]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 1) // 2)
    return sizes[::-1]
