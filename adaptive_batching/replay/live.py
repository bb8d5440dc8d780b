"""Traffic sent to a running service, over real HTTP and at its own pace."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from statistics import quantiles

import msgspec

from adaptive_batching.core import Batch, BatchRecord, JobOutcome, JobRecord, Limits
from adaptive_batching.load import Answer, End, OpenLoop, run_open_loop
from adaptive_batching.marshal.service import Service
from adaptive_batching.replay.model import Sleeper
from adaptive_batching.simulation import History

_PATH = "/sleep"
_OUTCOMES = {
    End.ANSWERED: JobOutcome.DONE,
    End.REFUSED: JobOutcome.SHED,
    End.ERROR: JobOutcome.FAILED,
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the service is told, and the simulation as well.

    Attributes:
        fixed: Seconds that any batch takes.
        per_item: Seconds that each item adds.
        limits: Of batches, latency and queue.
        policy: Its name.
        workers: Processes that run a batch at a time each.
    """

    fixed: float
    per_item: float
    limits: Limits
    policy: str = "cork"
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of traffic that was sent. Times in seconds from its beginning.

    Attributes:
        history: Requests as their clients saw them, batches as the service did.
        latency: Mean of those answered, as the service saw it.
        lag: 99th percentile of how much later than its instant a request was sent: what the
            generator adds to the latencies.
    """

    history: History
    latency: float
    lag: float


async def send(conditions: Conditions, instants: Iterable[float]) -> Measured:
    """Start a service, send a request at each instant, wait for the last answer.

    Args:
        conditions: What is served.
        instants: Seconds from the beginning, in order; at least one.

    Raises:
        LoadError: The generator failed, rather than its requests.
    """
    watch = _Watch()
    service = _service(conditions)
    item = msgspec.json.encode((conditions.fixed, conditions.per_item))
    async with service.running(observers={_PATH: [watch]}) as running:
        plan = OpenLoop(
            url=running.url + _PATH, bodies=[item], instants=[float(each) for each in instants]
        )
        answers = await run_open_loop(plan)
    history = History(
        [_record(answer, conditions.limits) for answer in answers],
        watch.since(answers[0].scheduled),
    )
    lags = [answer.lag for answer in answers]
    lag = quantiles(lags, n=100)[98] if len(lags) > 1 else lags[0]
    return Measured(history, watch.latency / max(1, watch.jobs), lag)


def _service(conditions: Conditions) -> Service:
    limits = conditions.limits
    service = Service("replay")
    service.endpoint(
        _PATH,
        max_latency=None if limits.max_latency == inf else limits.max_latency,
        max_batch_size=limits.max_batch_size,
        max_queue=limits.max_queue,
        workers=conditions.workers,
        policy=conditions.policy,
    )(Sleeper)
    return service


def _record(answer: Answer, limits: Limits) -> JobRecord:
    came = answer.scheduled
    outcome = _OUTCOMES[answer.end]
    return JobRecord(came, came + answer.latency, 1, outcome, came + limits.max_latency)


class _Watch:
    """Observes the dispatcher."""

    def __init__(self) -> None:
        self.jobs = 0
        self.latency = 0.0  # of all jobs together (seconds)
        self._batches: list[BatchRecord] = []

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        self._batches.append(record)
        self.jobs += len(batch.jobs)
        self.latency += sum(record.finished - job.arrived for job in batch.jobs)

    def since(self, first: float) -> list[BatchRecord]:
        """The batches on the generator's clock, by which the first request came at `first`."""
        if not self._batches:
            return []
        zero = min(batch.oldest_arrived for batch in self._batches) - first
        return [
            batch._replace(
                released=batch.released - zero,
                finished=batch.finished - zero,
                oldest_arrived=batch.oldest_arrived - zero,
            )
            for batch in self._batches
        ]
