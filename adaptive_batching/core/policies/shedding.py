"""Who can't be answered in time any more, by the fitted duration of a batch."""

from collections.abc import Sequence

from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.policy import Dispatch, QueueView, Shed, ShedReason

EXTRAPOLATION = 2.0  # times the largest size seen; beyond that nothing is refused on its account


def hopeless(queue: QueueView, margin: float, now: float) -> list[Job]:
    """The jobs with the earliest deadlines that would be late even if they left now.

    Each one shed makes the batch shorter, which may save the next. The margin is the share by which
    the batch may overrun; it is kept only while those behind fill the batch without the job: an
    even chance of being in time is better than an empty place.
    """
    if not queue.latency.trusted:
        return []
    limit = queue.limits.max_batch_size
    longest = min(limit, EXTRAPOLATION * queue.latency.largest)
    items = queue.items
    late = []
    for job in queue.by_deadline():
        duration = queue.latency.predict(min(items, longest))
        if items - job.size >= limit:
            duration *= 1.0 + margin
        if now + duration <= job.deadline:
            break
        late.append(job)
        items -= job.size
    return late


def shed_or_probe(queue: QueueView, late: Sequence[Job], now: float) -> Dispatch | Shed:
    """Shed them; if that is all who wait and nothing has left for long, test the prediction.

    It is learned and may be wrong, and without batches it would stay so for ever. The probe is of
    those who came last: if it was wrong by a little only, they are still in time.
    """
    limit = queue.limits.max_batch_size
    everything = len(late) == queue.requests
    patience = queue.head.deadline - queue.head.arrived
    if everything and now - queue.last_release >= patience:
        older = _all_but_newest(late, limit)
        if older:
            return Shed(older, ShedReason.HOPELESS)
        return Dispatch(limit, Reason.PROBE)
    return Shed(late, ShedReason.HOPELESS)


def _all_but_newest(jobs: Sequence[Job], limit: int) -> Sequence[Job]:
    """Who has to make room for the newest `limit` items."""
    items = 0
    for newer, job in enumerate(reversed(jobs)):
        items += job.size
        if items > limit:
            return jobs[: len(jobs) - newer]
    return []
