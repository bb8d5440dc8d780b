"""Traffic sent to a running service, over real HTTP and at its own pace."""

import asyncio
import time
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import cast

import msgspec
import numpy as np

from adaptive_batching.core import Batch, BatchRecord, JobOutcome, JobRecord, Limits
from adaptive_batching.dispatcher.calls import Call
from adaptive_batching.load import Answer, End, OpenLoop, run_open_loop
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.simulation import History
from adaptive_batching.simulation.traffic.arrivals import Times

_PATH = "/sleep"
_OUTCOMES = {
    End.ANSWERED: JobOutcome.DONE,
    End.REFUSED: JobOutcome.SHED,
    End.ERROR: JobOutcome.FAILED,
}


class Watch:
    """Observes one dispatcher whose items are numbered, as `send` numbers them.

    Args:
        loop: The dispatcher's.

    Attributes:
        taken: Of each batch, its size and the seconds from its release until its worker could have
            the next one, which is after the turn of the loop in which the scheduler is asked.
        latencies: By number, the seconds from an item's arrival to the same instant.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.taken: list[tuple[int, float]] = []
        self.latencies: dict[int, float] = {}
        self._loop = loop
        self._records: list[BatchRecord] = []

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """Called by the dispatcher, which is going to look for the next batch in the next turn."""
        self._records.append(record)
        self._loop.call_soon(self._loop.call_soon, self._could_leave, batch)

    def batches(self, first: float) -> list[BatchRecord]:
        """The batches on the generator's clock, by which the first request came at `first`."""
        if not self._records:
            return []
        zero = min(batch.oldest_arrived for batch in self._records) - first
        return [
            batch._replace(
                released=batch.released - zero,
                finished=batch.finished - zero,
                oldest_arrived=batch.oldest_arrived - zero,
            )
            for batch in self._records
        ]

    def _could_leave(self, batch: Batch) -> None:
        now = monotonic()
        self.taken.append((batch.size, now - batch.released))
        for call in cast("list[Call[bytes, bytes]]", batch.jobs):
            *_, number = msgspec.json.decode(call.item)
            self.latencies[number] = now - call.arrived


class Sleeper:
    """Sleeps `fixed + per_item * n` seconds over a batch; each item names both, and itself."""

    def __call__(self, items: list[tuple[float, float, int]]) -> list[None]:
        """Return nothing, once an item."""
        fixed, per_item, _ = items[0]
        time.sleep(fixed + per_item * len(items))
        return [None] * len(items)


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
        lags: How much later than its instant each request was sent.
        taken: Of each batch, its size and the seconds until its worker could have the next one.
        waits: What each answer took beyond that: from the sending to the queue, and to the client.
    """

    history: History
    lags: Times
    taken: list[tuple[int, float]]
    waits: list[float]

    @property
    def lag(self) -> float:
        """99th percentile of the lags."""
        return float(np.quantile(self.lags, 0.99))


async def send(conditions: Conditions, instants: Times) -> Measured:
    """Start a service, send a request at each instant, wait for the last answer.

    Args:
        conditions: What is served.
        instants: Seconds from the beginning, in order; at least one.

    Raises:
        LoadError: The generator failed, rather than its requests.
    """
    watch = Watch(asyncio.get_running_loop())
    model = (conditions.fixed, conditions.per_item)
    items = [msgspec.json.encode((*model, number)) for number in range(len(instants))]
    async with _service(conditions).running(observers={_PATH: [watch]}) as running:
        plan = OpenLoop(url=running.url + _PATH, bodies=items, instants=instants.tolist())
        answers = await run_open_loop(plan)
    limits = conditions.limits
    return Measured(
        History(
            [_record(answer, limits) for answer in answers],
            watch.batches(answers[0].scheduled),
        ),
        np.array([answer.lag for answer in answers]),
        watch.taken,
        [
            max(0.0, answer.latency - answer.lag - watch.latencies[number])
            for number, answer in enumerate(answers)
            if answer.end is End.ANSWERED and number in watch.latencies
        ],
    )


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
