"""Who is turned away at the door, and when to come again: before there is nothing to wait for."""

from collections.abc import Callable
from typing import NamedTuple

from adaptive_batching.core.job import Job
from adaptive_batching.core.policies.shedding import EXTRAPOLATION
from adaptive_batching.core.policy import QueueView


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


def retry_after(queue: QueueView, job: Job, now: float) -> float | None:
    """Seconds after which the job would be let in if nobody else came; None if it is let in now.

    That is when a batch with all that waits by then, and those who are to be expected, could still
    end within the job's patience; or when a worker is idle, if that is sooner.
    """
    latency, limit = queue.latency, queue.limits.max_batch_size
    longest = min(limit, EXTRAPOLATION * latency.largest)
    joining = 0.5 * queue.arrivals.rate(now, queue.window) * queue.arrivals.mean_size
    door = _Door(job.deadline - now, longest, joining, latency.fixed, latency.per_item)
    full = queue.ahead_of(job) // limit
    rest = min(queue.items - full * limit, limit)  # who is behind him may share his batch
    waiting = rest + job.size
    leaves = _releases(queue, latency.predict(longest), now)
    free = leaves(full)
    if not full:
        if door.lateness(waiting, free, now) <= 0:
            return None
        opens = door.opens(waiting, free, now)
    else:
        late = free + latency.predict(longest) - job.deadline
        if late <= 0:
            return None
        opens, last_full = now + late, leaves(full - 1)
        if opens > last_full:
            opens = door.opens(waiting, free, max(now, last_full))
    if opens >= free and rest:
        following = free + latency.predict(rest) if queue.workers == 1 else leaves(full + 1)
        opens = door.opens(job.size, following, free)
    return opens - now


def _releases(queue: QueueView, full: float, now: float) -> Callable[[int], float]:
    """When the nth of the batches to come can leave (seconds), if all that wait are full ones.

    Args:
        queue: Whose workers, each of which is expected to be free at some instant.
        full: Seconds that a full batch takes.
        now: The present (seconds).
    """
    best = queue.worker
    able = [
        worker
        for worker in queue.alive
        # who is idle and slower than the best is not given these
        if worker.batch is not None or best is None or worker.latency.factor <= best.latency.factor
    ]
    each = full * len(able) / (len(able) if best is None else best.worth(able))
    free = sorted([worker.free(now) for worker in able])
    return lambda n: free[n % len(free)] + n // len(free) * each
