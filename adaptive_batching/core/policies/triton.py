"""Triton's dynamic batcher: sizes that the model prefers, and a longest delay."""

from collections.abc import Iterable

from adaptive_batching.core.job import Reason
from adaptive_batching.core.policy import Dispatch, Hold, Situation
from adaptive_batching.core.records import BatchRecord
from adaptive_batching.units import parse_duration


class Triton:
    """Release the largest preferred size that the queue fills; otherwise wait until `delay`.

    When the oldest job has waited for `delay`, whatever waits leaves, preferred or not; with a
    delay of 0 that is at once. A queue that has grown past the largest preferred size without
    meeting one, or whose next job does not fit, waits no longer either. For models that were
    compiled for a few sizes. (NVIDIA Triton, `preferred_batch_size`, `max_queue_delay`.)

    Args:
        preferred: Sizes in items; those above `max_batch_size` are never reached.
        delay: Seconds that the oldest job may wait for a preferred size.
    """

    def __init__(self, preferred: Iterable[int], delay: float = 0.0) -> None:
        self.preferred = frozenset(preferred)
        if not self.preferred or min(self.preferred) < 1:
            msg = f"triton: expected sizes of at least 1 item, got {sorted(self.preferred)}"
            raise ValueError(msg)
        if not delay >= 0:
            msg = f"triton: expected a delay of 0 s or more, got {delay}"
            raise ValueError(msg)
        self.delay = delay
        self._largest = max(self.preferred)

    @classmethod
    def parse(cls, text: str) -> "Triton":
        """Read `4,8,16/2ms`: sizes, and the delay if there is one.

        Raises:
            ValueError: The sizes aren't whole numbers, or the delay is no duration.
        """
        sizes, slash, delay = text.partition("/")
        try:
            preferred = [int(size) for size in sizes.split(",")]
        except ValueError:
            raise ValueError(f"expected sizes such as 4,8,16, got {sizes!r}") from None
        return cls(preferred, parse_duration(delay) if slash else 0.0)

    def decide(self, situation: Situation) -> Dispatch | Hold:
        """Release a preferred size, or what waits when its time is up."""
        limit = situation.limits.max_batch_size
        due = situation.oldest.arrived + self.delay
        if self.delay and situation.now >= due:
            return Dispatch(limit, Reason.TIMEOUT)
        size, preferred = self._sizes(situation, limit)
        if preferred:
            return Dispatch(preferred, Reason.FULL if preferred == limit else Reason.PREFERRED)
        if situation.filled or size < situation.items or size >= self._largest:
            return Dispatch(limit, Reason.FULL)
        return Hold(due) if self.delay else Dispatch(limit, Reason.IDLE)

    def observe(self, batch: BatchRecord) -> None:
        """Learn nothing."""

    def _sizes(self, situation: Situation, limit: int) -> tuple[int, int]:
        """Items of the first jobs that fit, and the largest preferred size among their sums."""
        size = preferred = 0
        for job in situation.jobs:
            if size + job.size > limit:
                break
            size += job.size
            if size in self.preferred:
                preferred = size
        return size, preferred
