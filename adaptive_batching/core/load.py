"""What a scheduler has before it, for dashboards and metrics."""

from collections.abc import Callable, Hashable
from math import ceil
from typing import NamedTuple, Self

from adaptive_batching.core.queues.key_queue import KeyQueue
from adaptive_batching.core.scheduler import Scheduler


class Load(NamedTuple):
    """Read from a scheduler without changing what it will decide."""

    requests: int
    """Jobs that wait."""
    oldest: float
    """Seconds for which the one that came first has waited; 0 if none waits."""
    work: float
    """Predicted seconds until all that waits has run, if every worker were idle now.

    Autoscalers want this, not a count: it is in the unit of the promise, and knows of full batches.
    """
    saturation: float
    """Share of what the workers can do, in full batches, that is offered; over 1 is too much.

    By what came in the last 16 full batches, refused jobs included. Without workers as for one.
    """

    @classmethod
    def of(
        cls, scheduler: Scheduler, now: float, among: Callable[[Hashable], bool] = lambda _: True
    ) -> Self:
        """The load of a scheduler, or of some of its batch keys; `now` is the present (seconds)."""
        queues = [view for key, view in scheduler.queues.items() if among(key)]
        again = [job for job in scheduler.suspects if among(job.key)]
        workers = max(1, scheduler.permits.capacity)
        arrived = [view.queue.oldest.arrived for view in queues if view.requests]
        arrived += [job.arrived for job in again]
        work = sum(_work(view, view.items) for view in queues)
        work += sum(scheduler.line(job.key).predict(job.size) for job in again)
        load = sum(_load(view, now) for view in queues)
        oldest = max(0.0, now - min(arrived, default=now))
        requests = sum(view.requests for view in queues) + len(again)
        return cls(requests, oldest, work / workers, load / workers)


def _work(view: KeyQueue, items: int) -> float:
    """Predicted seconds of one worker, for batches that are as full as can be."""
    if not items:
        return 0.0
    batches = ceil(items / view.full(view.mean_cost))
    return batches * view.duration(items / batches)


def _load(view: KeyQueue, now: float) -> float:
    """How many workers that run full batches it takes to keep up with what comes."""
    limit = view.full(view.line.mean_cost)
    arrivals = view.arrivals
    items = arrivals.rate(now, view.window) * arrivals.offered_ratio * arrivals.mean_size
    return items * view.line.predict(limit) / limit
