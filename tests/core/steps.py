"""What the stories of the core say again and again."""

from collections.abc import Callable, Iterator
from math import inf

from adaptive_batching.core import Batch, Hold, Job, Outcome, Scheduler, Shed


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


def run_out(
    scheduler: Scheduler, seconds: Callable[[Batch], float], now: float = 0.0
) -> Iterator[Batch | Shed]:
    """What one worker is given until nothing waits; each batch is done after so many seconds."""
    while scheduler.items:
        step = scheduler.next(now)
        if isinstance(step, Hold):
            now = step.until
            continue
        yield step
        if isinstance(step, Batch):
            now += seconds(step)
            scheduler.finish(step, Outcome.DONE, now)
