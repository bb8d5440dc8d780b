"""What a dispatcher has done, and what waits before it."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Self

from adaptive_batching.core import (
    JobOutcome,
    LinearLatency,
    Load,
    Reason,
    Scheduler,
    Verdict,
    Worker,
)
from adaptive_batching.core.worker import slowness
from adaptive_batching.dispatcher.counters import Counters


class WorkerStats(NamedTuple):
    """What one worker has done so far, and how fast it is believed to be.

    Attributes:
        alive: Whether it holds a batch or could take one.
        batches: Ended batches.
        fixed: Fitted seconds of any batch on it.
        per_item: Fitted seconds that each item adds.
        full_batch: Predicted seconds of a full batch.
        slowness: Times as long as most workers that are alive; 1 until the contrary is proven.
        busy_since: When the batch left that it holds (seconds on the dispatcher's clock); None if
            it holds none.
        per_cost: Fitted seconds that each unit of a batch's cost adds; 0 where items cost the same.
        name: That of a model server, or of a worker that connects by itself; otherwise empty.
    """

    alive: bool
    batches: int
    fixed: float
    per_item: float
    full_batch: float
    slowness: float
    busy_since: float | None
    per_cost: float
    name: str = ""

    @classmethod
    def of(cls, worker: Worker, max_batch_size: int, line: LinearLatency, factor: float) -> Self:
        """The stats of a worker that the scheduler knows, for batches with this line on most."""
        latency = worker.latency_by(line)
        return cls(
            worker.alive,
            worker.batches,
            latency.fixed,
            latency.per_item,
            latency.predict(max_batch_size),
            factor,
            None if worker.batch is None else worker.released,
            latency.per_cost,
            worker.name,
        )


class Stats(NamedTuple):
    """What a dispatcher has done so far and what it has before it.

    Attributes:
        requests: Ended requests by outcome.
        batches: Ended batches.
        items: In ended batches.
        mean_batch_size: Items; 0 before the first batch.
        releases: Ended batches by the reason of their release.
        verdicts: Members of batches that failed, by what became of them; only where the handler
            is idempotent. A job that runs again counts each time, and then for how that ended.
        fixed: Fitted seconds of any batch.
        per_item: Fitted seconds that each item adds, one of the usual cost.
        error: Mean distance of batches from their prediction, relative (0.1 = 10 %).
        queued: Items that wait.
        queued_requests: Requests that wait.
        oldest: Seconds for which the oldest of them has waited; 0 if none waits.
        queued_seconds: Predicted seconds until all that waits has run, if every worker were idle.
        saturation: Share of what the workers can do, in full batches, that is offered.
        running: Batches that run.
        running_requests: Requests in them.
        idle: Workers that could take one.
        workers: Workers that are alive.
        per_worker: Each worker that there ever was, by index.
        per_cost: Fitted seconds of each unit of a batch's cost, where items don't cost the same.
            They are in `per_item` as well, at `mean_cost`.
        mean_cost: What an item of late batches cost, padding included.
    """

    requests: dict[JobOutcome, int]
    batches: int
    items: int
    mean_batch_size: float
    releases: dict[Reason, int]
    verdicts: dict[Verdict, int]
    fixed: float
    per_item: float
    error: float
    queued: int
    queued_requests: int
    oldest: float
    queued_seconds: float
    saturation: float
    running: int
    running_requests: int
    idle: int
    workers: int
    per_worker: tuple[WorkerStats, ...]
    per_cost: float = 0.0
    mean_cost: float = 0.0

    @staticmethod
    def _of_workers(
        workers: Sequence[Worker], max_batch_size: int, line: LinearLatency
    ) -> tuple[WorkerStats, ...]:
        """Those of each worker, by index."""
        return tuple(
            WorkerStats.of(worker, max_batch_size, line, factor)
            for worker, factor in zip(workers, slowness(workers), strict=True)
        )

    @classmethod
    def of(cls, scheduler: Scheduler, counters: Counters, now: float) -> Self:
        """The stats of a dispatcher at work; `now` is the present (seconds)."""
        full = scheduler.limits.max_batch_size
        load = Load.of(scheduler, now)
        return cls(
            requests={outcome: counters.requests[outcome] for outcome in JobOutcome},
            batches=counters.batches,
            items=counters.items,
            mean_batch_size=counters.mean_batch_size,
            releases={reason: counters.releases[reason] for reason in Reason},
            verdicts={verdict: counters.verdicts[verdict] for verdict in Verdict},
            fixed=scheduler.latency.fixed,
            per_item=scheduler.latency.per_item,
            error=scheduler.latency.error,
            queued=scheduler.items,
            queued_requests=load.requests,
            oldest=load.oldest,
            queued_seconds=load.work,
            saturation=load.saturation,
            running=len(scheduler.permits.running),
            running_requests=scheduler.permits.requests(),
            idle=scheduler.permits.idle,
            workers=scheduler.permits.capacity,
            per_worker=cls._of_workers(scheduler.permits.workers, full, scheduler.latency),
            per_cost=scheduler.latency.per_cost,
            mean_cost=scheduler.latency.mean_cost,
        )

    @classmethod
    def of_class(cls, scheduler: Scheduler, key: Hashable, counters: Counters, now: float) -> Self:
        """The stats of one class of its jobs, which has counters of its own."""
        of_class = scheduler.classes[key]
        full, line = of_class.limits.max_batch_size, of_class.latency
        load = Load.of(scheduler, now, lambda other: other == key)
        return cls.of(scheduler, counters, now)._replace(
            fixed=line.fixed,
            per_item=line.per_item,
            error=line.error,
            queued=scheduler.queued(key),
            queued_requests=load.requests,
            oldest=load.oldest,
            queued_seconds=load.work,
            saturation=load.saturation,
            running_requests=scheduler.permits.requests(lambda other: other == key),
            per_worker=cls._of_workers(scheduler.permits.workers, full, line),
            per_cost=line.per_cost,
            mean_cost=line.mean_cost,
        )

    @classmethod
    def nothing(cls) -> Self:
        """The stats of a dispatcher that was not used yet."""
        requests = dict.fromkeys(JobOutcome, 0)
        releases, verdicts = dict.fromkeys(Reason, 0), dict.fromkeys(Verdict, 0)
        return cls(
            requests=requests,
            batches=0,
            items=0,
            mean_batch_size=0.0,
            releases=releases,
            verdicts=verdicts,
            fixed=0.0,
            per_item=0.0,
            error=0.0,
            queued=0,
            queued_requests=0,
            oldest=0.0,
            queued_seconds=0.0,
            saturation=0.0,
            running=0,
            running_requests=0,
            idle=0,
            workers=0,
            per_worker=(),
        )
