"""What the stories of the core say again and again."""

from math import inf

from adaptive_batching.core import Batch, Hold, Job, Scheduler, Shed


def submit(scheduler: Scheduler, count: int, now: float, patience: float = inf) -> list[Job]:
    """Some single jobs at one instant, each with the same patience."""
    jobs = [Job(now, deadline=now + patience) for _ in range(count)]
    for job in jobs:
        scheduler.submit(job)
    return jobs


def released(step: Batch | Shed | Hold) -> Batch:
    """The batch that has left; anything else is a failure."""
    assert isinstance(step, Batch)
    return step
