"""Any policy, before which jobs that can't be answered in time any more are turned away."""

from adaptive_batching.core.policies.shedding import hopeless, shed_or_probe
from adaptive_batching.core.policy import Decision, Doorkeeper, Policy, Situation, Watcher
from adaptive_batching.core.records import BatchRecord


class ShedFirst:
    """Sheds jobs that would be late even if released now, then asks another policy.

    The duration is that of the batch that would leave, as fitted. Each one shed makes it shorter,
    which may save the next. This is `cork`'s shedding alone: it shows how much of a policy's loss
    in overload is work on answers that come too late, and how much is its own.

    Args:
        policy: Decides about the jobs that are left.

    Raises:
        TypeError: That policy turns jobs away by itself.
    """

    def __init__(self, policy: Policy) -> None:
        if isinstance(policy, Doorkeeper | Watcher):
            msg = f"{type(policy).__name__} turns jobs away by itself"
            raise TypeError(msg)
        self.policy = policy

    def decide(self, situation: Situation) -> Decision:
        """Shed, or do what the other policy says."""
        late = hopeless(situation)
        return shed_or_probe(situation, late) if late else self.policy.decide(situation)

    def observe(self, batch: BatchRecord) -> None:
        """Pass it on."""
        self.policy.observe(batch)
