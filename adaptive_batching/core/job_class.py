"""Jobs of different kinds before the same workers: what differs from one kind to the other."""

from dataclasses import dataclass, field, replace
from typing import Self

from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.policy import Limits


@dataclass(frozen=True, slots=True, eq=False)
class JobClass:
    """Jobs that have a batch key of their own, and limits and a duration that are theirs alone.

    Several models that live in the same workers are one each: their batches don't mix, and what one
    takes says nothing about the other, but they share the permits, and deadlines are compared
    across all of them.

    Attributes:
        limits: What the user asked for; `max_queue` counts items of this class.
        idempotent: Whether members of a batch that failed may be run again.
        latency: How long its batches take, learned from them alone.
    """

    limits: Limits
    idempotent: bool = False
    latency: LinearLatency = field(default_factory=LinearLatency)

    def limited(self, limits: Limits) -> Self:
        """This class with other limits."""
        return replace(self, limits=limits)

    def unlearned(self) -> Self:
        """This class, with nothing known of how long its batches take."""
        return replace(self, latency=LinearLatency())
