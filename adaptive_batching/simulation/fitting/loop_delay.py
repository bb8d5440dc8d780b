"""How late the event loop of a recorded service was."""

from collections.abc import Sequence
from statistics import median

from adaptive_batching.core import Reason
from adaptive_batching.simulation.traffic.traces.recording import RecordedBatch

_AT_ONCE = {Reason.FULL.value, Reason.IDLE.value}  # others may have left when a timer fired
_ROUNDED = 3e-6  # seconds: a release is known from three times that are rounded to 1e-6
_FEWEST = 20  # batches


def loop_delay(batches: Sequence[RecordedBatch]) -> float | None:
    """The seconds from what lets a batch leave at once to its release, the median of them.

    That is the end of another batch or the arrival of its last request, whichever came later. None
    if too few batches left at once.
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
    return median(waits) if len(waits) >= _FEWEST else None
