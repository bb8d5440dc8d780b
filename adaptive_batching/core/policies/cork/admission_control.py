"""Who is turned away at the door, and when to come again: before there is nothing to wait for."""

from collections.abc import Callable
from typing import NamedTuple

from adaptive_batching.core.job import Job
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policy import Situation


class _Door(NamedTuple):
    """What decides about a job while all workers are busy, if nobody else comes.

    Who joins its batch before a worker is free makes all of it wait; half of those are counted,
    which is certain enough to refuse on.
    """

    patience: float
    """Seconds that the job is ready to wait."""
    longest: float
    """Items of the largest batch that a prediction is trusted for."""
    joining: float
    """Items a second that are counted on."""
    fixed: float
    per_item: float

    def lateness(self, waiting: float, free: float, now: float) -> float:
        """Seconds by which it would miss its deadline if it came now.

        Args:
            waiting: Items of its batch, itself included.
            free: When that batch can leave (seconds).
            now: When it comes (seconds).
        """
        size = min(waiting + self.joining * (free - now), self.longest)
        return free + self.fixed + self.per_item * size - now - self.patience

    def opens(self, waiting: float, free: float, now: float) -> float:
        """When it would be let in; `free` at the latest, because then a worker is idle."""
        late = self.lateness(waiting, free, now)
        if waiting < self.longest and self.joining:  # later, fewer will join
            shrinks = max(now, free - (self.longest - waiting) / self.joining)
            if late > shrinks - now:
                late -= shrinks - now
                now = shrinks
                late /= 1.0 + self.joining * self.per_item
        return min(now + max(late, 0.0), free)


def retry_after(at: Situation, job: Job, parameters: CorkParameters) -> float | None:
    """Seconds after which the job would be let in if nobody else came; None if it is let in now.

    That is when a batch with all that waits by then, and those who are to be expected, could still
    end within the job's patience; or when a worker is idle, if that is sooner.
    """
    limit, now = at.limits.max_batch_size, at.now
    longest = min(limit, parameters.extrapolation * at.largest)
    joining = parameters.joining * at.rate * at.mean_size
    door = _Door(job.deadline - now, longest, joining, at.fixed, at.per_item)
    full = at.jobs.ahead_of(job) // limit
    rest = min(at.items - full * limit, limit)  # who is behind him may share his batch
    if job.deadline - now < at.predict(limit) * (1.0 + 1.0 / at.capacity):
        full = rest = 0  # a full batch can't follow one in time: those ahead will be shed
    waiting = rest + job.size
    leaves = _releases(at, at.predict(longest))
    free = leaves(full)
    if not full:
        if door.lateness(waiting, free, now) <= 0:
            return None
        opens = door.opens(waiting, free, now)
    else:
        late = free + at.predict(longest) - job.deadline
        if late <= 0:
            return None
        opens, last_full = now + late, leaves(full - 1)
        if opens > last_full:
            opens = door.opens(waiting, free, max(now, last_full))
    if opens >= free and rest:
        following = free + at.predict(rest) if at.workers == 1 else leaves(full + 1)
        opens = door.opens(job.size, following, free)
    return opens - now


def _releases(at: Situation, full: float) -> Callable[[int], float]:
    """When the nth of the batches to come can leave (seconds), if all that wait are full ones.

    Args:
        at: The workers, each of which is expected to be free at some instant.
        full: Seconds that a full batch takes.
    """
    now = at.now
    free = sorted([max(now, batch.predicted_finish) for batch in at.running])
    if at.faster is None:  # who is idle and slower than the best is not given these
        free = [now] * at.idle + free
    each = full * len(free) / at.capacity
    return lambda n: free[n % len(free)] + n // len(free) * each
