"""Nexus's early drop: give up the oldest to save a whole batch."""

from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.policies.shedding import shed_or_probe
from adaptive_batching.core.policy import Dispatch, Shed, Situation
from adaptive_batching.core.records import BatchRecord


class Nexus:
    """Release when a worker is free; first drop jobs that would be late in a batch of full length.

    A window as long as the batch slides over the queue: a job whose deadline lies before the end of
    that batch is dropped and the window takes in the next, so that one old job does not keep the
    batch small. It shortens when the queue does. Dropping late instead, only what has expired, cost
    Nexus a quarter of its goodput (SOSP'19, 4.3 and 6.3; `GetBatchTaskSlidingWindow`).

    It assumes a profile of the model; ours is learned, so a hopeless queue is probed now and then.
    """

    def decide(self, situation: Situation) -> Dispatch | Shed:
        """Drop or release."""
        late = outside_window(situation)
        if late:
            return shed_or_probe(situation, late)
        limit = situation.limits.max_batch_size
        return Dispatch(limit, Reason.FULL if situation.filled else Reason.IDLE)

    def observe(self, batch: BatchRecord) -> None:
        """Learn nothing."""


def outside_window(situation: Situation) -> list[Job]:
    """The jobs to drop so that the batch that leaves now is as large as can be and in time."""
    limit = situation.limits.max_batch_size
    expected = min(limit, situation.items)
    finish = situation.now + situation.predict(expected)
    taken, behind = 0, situation.items
    late: list[Job] = []
    for job in situation.jobs:
        if taken >= expected:
            break
        behind -= job.size
        if job.deadline >= finish:
            taken += job.size
            continue
        late.append(job)
        expected = min(limit, taken + behind)
        finish = situation.now + situation.predict(expected)
    return late
