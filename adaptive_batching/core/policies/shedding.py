"""Finds jobs that can't be answered in time any more, by the fitted duration of a batch."""

from collections.abc import Sequence
from math import inf

from adaptive_batching.core.estimators.evidence import EXTRAPOLATION, MEMORY
from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.policy import Dispatch, Shed, ShedReason, Situation


def hopeless(
    situation: Situation,
    margin: float = 0.0,
    begin: float | None = None,
    extrapolation: float = EXTRAPOLATION,
) -> list[Job]:
    """The jobs with the earliest deadlines that would be late even if they left now.

    Each one shed makes the batch shorter, which may save the next. The margin is the share by which
    the batch may overrun; it is kept only while those behind fill the batch without the job: an
    even chance of being in time is better than an empty place.

    Args:
        situation: What waits, and how long batches take.
        margin: Relative.
        begin: When they could leave (seconds); None for now.
        extrapolation: Times the largest batch seen: larger ones are taken to be no slower.
    """
    if not situation.trusted:
        return []
    begin = situation.now if begin is None else begin
    limit = situation.limits.max_batch_size
    longest = min(limit, extrapolation * situation.largest)
    items = situation.items
    late: list[Job] = []
    soonest = situation.soonest
    slowest = situation.predict_with(soonest, min(items, longest)) * (1.0 + margin)
    if begin + slowest <= soonest.deadline:
        return late  # the common case
    for job in situation.jobs.by_deadline():
        duration = situation.predict_with(job, min(items, longest))
        if items - job.size >= situation.full:
            duration *= 1.0 + margin
        if begin + duration <= job.deadline:
            break
        late.append(job)
        items -= job.size
    return late


def shed_or_probe(situation: Situation, late: Sequence[Job]) -> Dispatch | Shed:
    """Shed these jobs; if they are all that wait and the prediction is in doubt, release a probe.

    The prediction may be wrong, and without batches it would stay so for ever. It is in doubt when
    no batch at all has left for long, or none of the key, or when what is known of a key that is
    too slow is outdated. The probe is of the newest jobs: if the prediction was wrong by a little
    only, they are still in time.
    """
    if len(late) == situation.requests and _in_doubt(situation, situation.head):
        limit = situation.limits.max_batch_size
        older = _all_but_newest(late, limit)
        if older:
            return Shed(older, ShedReason.HOPELESS)
        return Dispatch(limit, Reason.PROBE)
    return Shed(late, ShedReason.HOPELESS)


def probed_after(situation: Situation, job: Job) -> float:
    """Seconds until a job that would be late even alone may leave as a probe; 0 for any other job.

    Until then it would be let in by an idle worker and shed again in the same instant.
    """
    now, patience = situation.now, job.deadline - job.arrived
    at = situation if situation.faster is None else situation.on(situation.faster)
    if at.predict_joined(job, job.size) <= patience:
        return 0.0
    return max(0.0, min(_silent_from(at, job), _doubtful_from(at, job)) - now)


def doubtful(situation: Situation, job: Job) -> bool:
    """Whether the prediction that a job would be late has to be tried, for its queue alone.

    Not while one of the queue's batches runs, which will tell.
    """
    if situation.now < _doubtful_from(situation, job):
        return False
    return all(batch.key != job.key for batch in situation.running)


def _in_doubt(situation: Situation, head: Job) -> bool:
    """Whether the prediction that the first job would be late has to be tried."""
    return situation.now >= _silent_from(situation, head) or doubtful(situation, head)


def _doubtful_from(situation: Situation, job: Job) -> float:
    """From when a job may be tried although it would be late by the prediction (seconds).

    If its queue's own batches are too slow, that is when what is known of them is outdated. Any
    other reason might keep out the queue's jobs for ever: it is ignored once fifty more of its
    batches could have run, if the probes of all queues have time left.
    """
    outdated = situation.forgotten
    if _too_slow(situation, job):
        return outdated
    return max(outdated + MEMORY * situation.predict(job.size), situation.next_probe)


def _too_slow(situation: Situation, job: Job) -> bool:
    """Whether the queue's own batches are too slow for a job.

    A job that has too little time for a batch of most queues says nothing of this one: the queue is
    then held against `max_latency`.
    """
    patience = job.deadline - job.arrived
    promise = situation.limits.max_latency
    if promise < inf and situation.pool.predict(job.size) > patience:
        patience = promise
    return situation.predict(job.size) > patience


def _silent_from(situation: Situation, job: Job) -> float:
    """From when the lack of batches says that wrong predictions may shed all jobs (seconds).

    Where jobs of most queues would be in time, it only says that none came. So a queue that is too
    slow waits until what is known of it is outdated; `inf` for that.
    """
    patience = job.deadline - job.arrived
    if situation.pool.predict(job.size) <= patience and _too_slow(situation, job):
        return inf
    return situation.last_release + patience


def _all_but_newest(jobs: Sequence[Job], limit: int) -> Sequence[Job]:
    """The jobs that make room for the newest `limit` items."""
    items = 0
    for newer, job in enumerate(reversed(jobs)):
        items += job.size
        if items > limit:
            return jobs[: len(jobs) - newer]
    return []
