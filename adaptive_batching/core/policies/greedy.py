"""Release whatever waits as soon as a worker is free."""

from adaptive_batching.core.job import Reason
from adaptive_batching.core.policy import Dispatch, Situation
from adaptive_batching.core.records import BatchRecord


class Greedy:
    """Release whatever waits as soon as a worker is free.

    For one worker and Poisson traffic nothing beats it by more than 1 % in mean latency. With
    several workers it bunches: the leading one takes the long queue and the others catch up.
    """

    def decide(self, situation: Situation) -> Dispatch:
        """Release."""
        limit = situation.limits.max_batch_size
        return Dispatch(limit, Reason.FULL if situation.filled else Reason.IDLE)

    def observe(self, batch: BatchRecord) -> None:
        """Learn nothing."""
