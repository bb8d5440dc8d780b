"""Whose batch goes first when not all can be in time any more."""

from math import inf

from adaptive_batching.core.queues import Queues

_LOOKAHEAD = 2.0  # batches; Vepsalainen and Morton found 1.5 to 4.5 best, and it is flat between
_KEPT = 0.8  # of the time left: batches come in lumps, and who is looked at last is late first


def lookahead(queues: Queues, now: float) -> float:
    """0 while every queue's batch can still be in time; else for how long a batch may be put off.

    If all of them are in time, they are so on average: in its turn the middle one leaves when half
    of them have left. Taken over all keys, this needs no knowledge of any single one.
    """
    if queues.number < 2 or queues.mean_deadline == inf:
        return 0.0
    duration, workers = queues.duration, max(1, queues.workers)
    turn = (queues.batches - 1) / 2 * duration / workers
    if turn + duration <= _KEPT * (queues.mean_deadline - now):
        return 0.0
    return _LOOKAHEAD * duration / workers
