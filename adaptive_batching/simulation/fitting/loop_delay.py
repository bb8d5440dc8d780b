"""How late the event loop of a service is."""

from collections.abc import Sequence
from statistics import median

from adaptive_batching.core import Reason
from adaptive_batching.simulation.traffic.traces.recording import RecordedBatch

# A service with sleeping workers on two busy cores notices a result 0.2 ms after it was made and a
# request 0.15 to 0.25 ms after it was sent; with one worker its recordings say 0.16 to 0.28 ms.
LOOP_DELAY = 0.25e-3
"""What is taken for it where nothing is known (seconds)."""

_AT_ONCE = {Reason.FULL.value, Reason.IDLE.value}  # others may have left when a timer fired
_ROUNDED = 3e-6  # seconds: a release is known from three times that are rounded to 1e-6
_FEWEST = 20  # batches


def loop_delay(batches: Sequence[RecordedBatch]) -> float:
    """The seconds from what lets a batch leave at once to its release, the median of them.

    That is the end of another batch or the arrival of its last request, whichever came later. It is
    `LOOP_DELAY` if too few batches left at once, and no more than the shortest batch took, as the
    loop had noticed its end by then.
    """
    ends = sorted(batch.released + batch.duration for batch in batches)
    waits = []
    done = 0
    for batch in sorted(batches, key=lambda each: each.released):
        while done < len(ends) and ends[done] <= batch.released + _ROUNDED:
            done += 1
        if batch.reason in _AT_ONCE:
            cause = max(batch.joined, ends[done - 1]) if done else batch.joined
            waits.append(max(0.0, batch.released - cause))
    usual = median(waits) if len(waits) >= _FEWEST else LOOP_DELAY
    return min([usual, *(batch.duration for batch in batches)])
