"""The outbound semaphore: how many batches may run, and when the next of them ends."""

from math import inf

from adaptive_batching.core.job import Batch


class Permits:
    """One permit a worker. Taken when a batch is released, returned when it has ended."""

    __slots__ = ("_earliest", "_running", "capacity", "last_release")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.last_release = -inf
        self._running: set[Batch] = set()
        self._earliest = inf  # predicted finish among the running; they change only here

    def __repr__(self) -> str:
        return f"<Permits idle={self.idle}/{self.capacity}>"

    @property
    def running(self) -> int:
        """Batches that have left and not ended."""
        return len(self._running)

    @property
    def idle(self) -> int:
        """Permits to be had; never negative, even when workers die under their batches."""
        return max(0, self.capacity - len(self._running))

    def next_free(self, now: float) -> float:
        """When the next running batch is expected to end (seconds): `now` if that is overdue."""
        return max(self._earliest, now)

    def take(self, batch: Batch) -> None:
        """The batch leaves."""
        self._running.add(batch)
        self.last_release = batch.released
        self._earliest = min(self._earliest, batch.predicted_finish)

    def give_back(self, batch: Batch) -> None:
        """The batch has ended."""
        self._running.remove(batch)
        if batch.predicted_finish <= self._earliest:
            self._earliest = min((b.predicted_finish for b in self._running), default=inf)
