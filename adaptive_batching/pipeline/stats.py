"""What a pipeline has done, in counts."""

from dataclasses import dataclass

from adaptive_batching.core import JobOutcome
from adaptive_batching.dispatcher import Stats


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
