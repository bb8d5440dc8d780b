"""Clipper's batch size control: up by a step, down by a tenth."""

from math import inf

from adaptive_batching.core.job import Outcome, Reason
from adaptive_batching.core.policy import Dispatch, Situation
from adaptive_batching.core.records import BatchRecord

_BACK_OFF = 0.9  # "a small multiplicative back-off of 10 %" (Clipper, NSDI'17, 4.3.1)
_OVERLOADED = (Outcome.OVERLOADED, Outcome.REFUSED)


class AIMD:
    """Release when a worker is free, up to a size that is sought by trial.

    The size grows by `step` with every batch at the limit that keeps the objective and shrinks to
    0.9 of itself with every batch that takes longer: additive increase, multiplicative decrease.
    The objective is `max_latency` and is held against the batch's own duration, as in Clipper; held
    against the latency from arrival, a queue shrinks the batches, which lengthens the queue.

    Args:
        step: Items added after a batch that kept the objective.
    """

    def __init__(self, step: float = 1.0) -> None:
        if not step > 0:
            msg = f"aimd: expected a positive step in items, got {step}"
            raise ValueError(msg)
        self.step = step
        self.size = 1.0
        """The present limit (items)."""
        self._objective = inf
        self._most = inf

    @classmethod
    def parse(cls, text: str) -> "AIMD":
        """Read the step, or `e2e` for `EndToEndAIMD`.

        Raises:
            ValueError: It is no positive number.
        """
        if text == "e2e":
            return EndToEndAIMD()
        try:
            return cls(float(text))
        except ValueError:
            raise ValueError(f"expected a positive step in items, or e2e, got {text!r}") from None

    def decide(self, situation: Situation) -> Dispatch:
        """Release up to the present limit."""
        self._objective = situation.limits.max_latency
        self._most = situation.limits.max_batch_size
        limit = max(int(self.size), situation.head.size)
        return Dispatch(limit, Reason.FULL if situation.items >= limit else Reason.IDLE)

    def observe(self, batch: BatchRecord) -> None:
        """Seek the size."""
        if batch.outcome in _OVERLOADED or self._measure(batch) > self._objective:
            self.size = max(1.0, self.size * _BACK_OFF)
        elif batch.outcome is Outcome.DONE and batch.size >= int(self.size):
            self.size = min(self._most, self.size + self.step)

    def _measure(self, batch: BatchRecord) -> float:
        """What is held against the objective (seconds)."""
        return batch.duration


class EndToEndAIMD(AIMD):
    """AIMD against the latency from arrival, which is what `max_latency` limits: for comparison.

    It collapses: a queue makes the batches late, which makes them smaller, which costs the capacity
    that the queue needs. At 60 to 80 % of capacity it ends with batches of one.
    """

    def _measure(self, batch: BatchRecord) -> float:
        """How long its oldest member had to wait for the answer (seconds)."""
        return batch.finished - batch.oldest_arrived
