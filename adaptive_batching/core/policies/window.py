"""Release when the batch is full or its oldest job has waited for a fixed time."""

from adaptive_batching.core.job import Reason
from adaptive_batching.core.policy import Dispatch, Hold, Situation
from adaptive_batching.core.records import BatchRecord
from adaptive_batching.units import parse_duration


class Window:
    """Size and timeout, tuned by hand: TensorFlow Serving, Triton's queue delay, mosec, KServe.

    Args:
        timeout: Seconds that the oldest job may wait for company.
    """

    def __init__(self, timeout: float = 2e-3) -> None:
        if not timeout >= 0:
            msg = f"window: expected a timeout of 0 s or more, got {timeout}"
            raise ValueError(msg)
        self.timeout = timeout

    @classmethod
    def parse(cls, text: str) -> "Window":
        """Read the timeout.

        Raises:
            ValueError: It is no duration.
        """
        return cls(parse_duration(text))

    def decide(self, situation: Situation) -> Dispatch | Hold:
        """Release a full batch at once, any other when its time is up."""
        limit = situation.limits.max_batch_size
        if situation.filled:
            return Dispatch(limit, Reason.FULL)
        due = situation.oldest.arrived + self.timeout
        return Dispatch(limit, Reason.TIMEOUT) if situation.now >= due else Hold(due)

    def observe(self, batch: BatchRecord) -> None:
        """Learn nothing."""
