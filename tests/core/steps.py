"""What the stories of the core say again and again."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from math import inf
from random import Random

from adaptive_batching.core import Batch, Hold, Job, Limits, Outcome, Scheduler, Shed
from adaptive_batching.core.policies.greedy import Greedy


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


def having_run(
    costs: Mapping[Hashable, float], batches: int, workers: int = 1, jitter: float = 0.05
) -> Scheduler:
    """One that has run batches of 5 ms + 0.05 ms an item, times the cost of their key."""
    random, now = Random(1), 0.0
    scheduler = Scheduler(Greedy(), Limits(64), workers)
    for _ in range(batches):
        key = random.choice([*costs])
        size = random.randrange(1, 65)
        for _ in range(size):
            scheduler.submit(Job(now, key=key))
        batch = released(scheduler.next(now))
        now += (5e-3 + 0.05e-3 * size) * costs[key] * random.lognormvariate(0.0, jitter)
        scheduler.finish(batch, Outcome.DONE, now)
    return scheduler
