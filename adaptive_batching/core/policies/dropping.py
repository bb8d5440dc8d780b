"""Any policy, and those who can't be answered in time any more are turned away first."""

from collections.abc import Sequence

from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.policy import (
    Decision,
    Dispatch,
    Doorkeeper,
    Policy,
    QueueView,
    Shed,
    ShedReason,
    Watcher,
)
from adaptive_batching.core.records import BatchRecord

_EXTRAPOLATION = 2.0  # times the largest size seen; beyond that nothing is refused on its account


class Dropping:
    """Sheds from the head who would be late even if released now, then asks another policy.

    The duration is that of the batch that would leave, as fitted. Each one shed makes it shorter,
    which may save the next. This is `cork`'s shedding alone: it shows how much of a policy's loss
    in overload is work on answers that nobody waits for, and how much is its own.

    Args:
        policy: Decides about those who are left.

    Raises:
        TypeError: That policy turns jobs away by itself.
    """

    def __init__(self, policy: Policy) -> None:
        if isinstance(policy, Doorkeeper | Watcher):
            msg = f"{type(policy).__name__} turns jobs away by itself"
            raise TypeError(msg)
        self.policy = policy

    def decide(self, queue: QueueView, now: float) -> Decision:
        """Shed, or do what the other policy says."""
        late = _hopeless(queue, now)
        return shed_or_probe(queue, late, now) if late else self.policy.decide(queue, now)

    def observe(self, batch: BatchRecord) -> None:
        """Pass it on."""
        self.policy.observe(batch)


def shed_or_probe(queue: QueueView, late: Sequence[Job], now: float) -> Shed | Dispatch:
    """Shed them; if that is all who wait and nothing has left for long, test the prediction.

    It is learned and may be wrong, and without batches it would stay so: policies that were
    published with a profile measured beforehand need this here.
    """
    patience = queue.head.deadline - queue.head.arrived
    if len(late) == queue.requests and now - queue.last_release >= patience:
        return Dispatch(queue.limits.max_batch_size, Reason.PROBE)
    return Shed(late, ShedReason.HOPELESS)


def _hopeless(queue: QueueView, now: float) -> list[Job]:
    latency = queue.latency
    if not latency.trusted:
        return []
    longest = min(queue.limits.max_batch_size, _EXTRAPOLATION * latency.largest)
    items = queue.items
    hopeless: list[Job] = []
    for job in queue.jobs():
        if now + latency.predict(min(items, longest)) <= job.deadline:
            break
        hopeless.append(job)
        items -= job.size
    return hopeless
