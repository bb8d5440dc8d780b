"""What a pipeline has done, in counts."""

import asyncio
from dataclasses import dataclass

from adaptive_batching.core import JobOutcome
from adaptive_batching.dispatcher import Stats
from adaptive_batching.dispatcher.calls import is_answer
from adaptive_batching.errors import DeadlineExceeded, QueueFull, Refused


@dataclass(frozen=True, slots=True)
class PipelineStats:
    """What a pipeline has done so far and what it has before it.

    Attributes:
        requests: Ended requests by outcome, each counted once.
        under_way: Items between the entrance and the end.
        stages: What each stage has done.
    """

    requests: dict[JobOutcome, int]
    under_way: int
    stages: tuple[Stats, ...]


def outcome_of(error: BaseException) -> JobOutcome:
    """How a request that was answered with an error ended."""
    match error:
        case asyncio.CancelledError():
            return JobOutcome.CANCELLED
        case _ if is_answer(error):
            return JobOutcome.DONE
        case DeadlineExceeded():
            return JobOutcome.EXPIRED
        case QueueFull():
            return JobOutcome.QUEUE_FULL
        case Refused():
            return JobOutcome.SHED
        case _:
            return JobOutcome.FAILED
