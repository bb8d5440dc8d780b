"""Jobs of different kinds before the same workers: what differs from one kind to the other."""

from adaptive_batching.core.estimators.cost_latency import CostLatency
from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.policy import Limits


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

    __slots__ = ("idempotent", "latency", "limits")

    def __init__(
        self, limits: Limits, *, idempotent: bool = False, latency: LinearLatency | None = None
    ) -> None:
        self.limits = limits
        self.idempotent = idempotent
        self.latency = latency_for(limits) if latency is None else latency

    def limited(self, limits: Limits) -> "JobClass":
        """This class with other limits."""
        return JobClass(limits, idempotent=self.idempotent, latency=self.latency)

    def unlearned(self) -> "JobClass":
        """This class, with nothing known of how long its batches take."""
        return JobClass(self.limits, idempotent=self.idempotent)


def latency_for(limits: Limits) -> LinearLatency:
    """What learns how long batches take that keep these limits."""
    return LinearLatency() if limits.costs is None else CostLatency()
