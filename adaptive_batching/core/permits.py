"""The outbound semaphore: how many batches may run, and when the next of them ends."""

from math import inf

from adaptive_batching.core.job import Batch


class Permits:
    """One permit a worker. Taken when a batch is released, returned when it has ended."""

    __slots__ = ("_capacity", "_earliest", "_running", "idle", "last_release")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._running: set[Batch] = set()
        self._earliest = inf  # predicted finish among the running; they change only here
        self.idle = capacity
        """Permits to be had; never negative, even when workers die under their batches."""
        self.last_release = -inf

    def __repr__(self) -> str:
        return f"<Permits idle={self.idle}/{self.capacity}>"

    @property
    def capacity(self) -> int:
        """Workers that are alive."""
        return self._capacity

    @capacity.setter
    def capacity(self, workers: int) -> None:
        self._capacity = workers
        self._count_idle()

    @property
    def running(self) -> int:
        """Batches that have left and not ended."""
        return len(self._running)

    def next_free(self, now: float) -> float:
        """When the next running batch is expected to end (seconds): `now` if that is overdue."""
        earliest = self._earliest
        return earliest if earliest > now else now  # noqa: FURB136  max() costs thrice as much

    def next_expected(self, now: float, overrun: float) -> float:
        """When the next worker can be counted on (seconds); `inf` if no busy one can.

        An overdue batch is expected within the overrun that most batches stay below. One that is
        later still has met a pause of the machine, and nobody knows how long that takes.

        Args:
            now: The present (seconds).
            overrun: Share of its predicted duration by which a batch may be late.
        """
        if self._earliest > now:
            return self._earliest
        expected = inf
        for batch in self._running:
            finish = batch.predicted_finish
            if finish <= now:
                finish += overrun * batch.predicted
            if now < finish < expected:
                expected = finish
        return expected

    def take(self, batch: Batch) -> None:
        """The batch leaves."""
        self._running.add(batch)
        self._count_idle()
        self.last_release = batch.released
        self._earliest = min(self._earliest, batch.predicted_finish)

    def give_back(self, batch: Batch) -> None:
        """The batch has ended."""
        self._running.remove(batch)
        self._count_idle()
        if batch.predicted_finish <= self._earliest:
            self._earliest = min((b.predicted_finish for b in self._running), default=inf)

    def _count_idle(self) -> None:
        self.idle = max(0, self._capacity - len(self._running))
