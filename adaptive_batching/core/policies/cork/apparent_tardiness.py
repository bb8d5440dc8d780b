"""Which key's batch goes first when not all can be in time any more."""

from math import inf

from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.queues.queues import Queues


def lookahead(queues: Queues, now: float, parameters: CorkParameters) -> float:
    """0 while every queue's batch can still be in time; else for how long a batch may be put off.

    If all of them are in time, they are so on average: in its turn the middle one leaves when half
    of them have left. Taken over all keys, this needs no knowledge of any single one.
    """
    if queues.number < 2 or queues.mean_deadline == inf:
        return 0.0
    duration, workers = queues.duration, max(1, queues.workers)
    turn = (queues.batches - 1) / 2 * duration / workers
    if turn + duration <= parameters.kept * (queues.mean_deadline - now):
        return 0.0
    return parameters.lookahead * duration / workers
