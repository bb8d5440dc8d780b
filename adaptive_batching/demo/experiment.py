"""The same model behind the same service, first without batching and then with it."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import numpy as np

from adaptive_batching.demo.digits import BatchDuration, Digits, images, measure
from adaptive_batching.dispatcher.stats import Stats
from adaptive_batching.load import Answer, End, OpenLoop, run_open_loop
from adaptive_batching.marshal.service.runner import Running
from adaptive_batching.marshal.service.service import Service

MAX_LATENCY = 0.1  # seconds
_PATH = "/predict"
_UNBATCHED = 2.0  # times what the model can do without batching
_BATCHED = (2.0, 5.0, 10.0, 15.0, 20.0)


@dataclass(frozen=True, slots=True)
class Phase:
    """What one rate of requests came to.

    Attributes:
        max_batch_size: Items in a batch at the most; 1 is batching switched off.
        offered: Requests sent per second.
        on_time_per_second: Requests answered within `MAX_LATENCY` per second.
        p50: Median latency of the answered (seconds from when they were due); None without any.
        p99: 99th percentile of it.
        mean_batch_size: Items.
        refused: Requests turned away.
    """

    max_batch_size: int
    offered: float
    on_time_per_second: float
    p50: float | None
    p99: float | None
    mean_batch_size: float
    refused: int


@dataclass(slots=True)
class Findings:
    """What the demonstration has shown.

    Attributes:
        answers: Answers received.
        wrong: Answers that were not the model's own.
        lost: Requests that got no answer and no refusal either.
        phases: In the order in which they ran.
        fitted: What the scheduler has learned about the duration of a batch.
        measured: The same, measured on the model itself.
    """

    answers: int = 0
    wrong: int = 0
    lost: int = 0
    phases: list[Phase] = field(default_factory=list)
    fitted: BatchDuration | None = None
    measured: BatchDuration | None = None

    @property
    def gain(self) -> float:
        """Best batched over unbatched answers in time per second."""
        batched = max(p.on_time_per_second for p in self.phases if p.max_batch_size > 1)
        unbatched = max(p.on_time_per_second for p in self.phases if p.max_batch_size == 1)
        return batched / max(unbatched, 1.0)  # on a machine that manages none, say so in numbers


class Demonstration:
    """Trains the model, then drives it over real HTTP at several rates.

    Args:
        seconds: Of each phase.
        progress: Told what is going on.
    """

    def __init__(self, seconds: float, progress: Callable[[str], None]) -> None:
        self.findings = Findings()
        self._seconds = seconds
        self._progress = progress
        self._bodies: list[bytes] = []
        self._truth: list[int] = []
        self._single_rate = 0.0  # what the model can do one by one, per second

    async def unbatched(self) -> None:
        """Measure the model, then serve it one item at a time."""
        self._progress("training the model")
        samples = images()
        model = await asyncio.to_thread(Digits)
        self._truth = model(samples)
        self._bodies = [msgspec.json.encode(sample) for sample in samples]
        measured = await asyncio.to_thread(measure, model, samples)
        self.findings.measured = measured
        self._single_rate = 1.0 / (measured.fixed + measured.per_item)
        async with _service(max_batch_size=1) as running:
            await self._phase(running, 1, _UNBATCHED)

    @asynccontextmanager
    async def batched(self) -> AsyncIterator[Running]:
        """Serve it in batches at rising rates; the service is up while the block runs."""
        async with _service(max_batch_size=64) as running:
            for multiple in _BATCHED:
                await self._phase(running, 64, multiple)
            stats = running.dispatchers[_PATH].stats()
            self.findings.fitted = BatchDuration(stats.fixed, stats.per_item)
            yield running

    async def _phase(self, running: Running, max_batch_size: int, multiple: float) -> None:
        rate = round(multiple * self._single_rate, -1)
        how = f"batches of up to {max_batch_size}" if max_batch_size > 1 else "no batching"
        self._progress(f"{how}, {rate:,.0f} requests/s for {self._seconds:g} s")
        dispatcher = running.dispatchers[_PATH]
        before = dispatcher.stats()
        plan = OpenLoop(
            url=running.url + _PATH, bodies=self._bodies, phases=[(rate, self._seconds)]
        )
        answers = await run_open_loop(plan)
        mean = _mean_batch_size(before, dispatcher.stats())
        self.findings.phases.append(self._account(answers, max_batch_size, mean))

    def _account(self, answers: list[Answer], max_batch_size: int, mean: float) -> Phase:
        answered = [answer for answer in answers if answer.end is End.ANSWERED]
        refused = sum(answer.end is End.REFUSED for answer in answers)
        latencies = np.array([answer.latency for answer in answered])
        findings = self.findings
        findings.answers += len(answered)
        findings.lost += len(answers) - len(answered) - refused
        findings.wrong += sum(
            msgspec.json.decode(answer.body) != self._truth[answer.item] for answer in answered
        )
        p50, p99 = np.percentile(latencies, [50, 99]).tolist() if answered else (None, None)
        return Phase(
            max_batch_size=max_batch_size,
            offered=len(answers) / self._seconds,
            on_time_per_second=int((latencies <= MAX_LATENCY).sum()) / self._seconds,
            p50=p50,
            p99=p99,
            mean_batch_size=mean,
            refused=refused,
        )


def _service(max_batch_size: int) -> AbstractAsyncContextManager[Running]:
    service = Service("digits")
    service.endpoint(
        _PATH,
        max_latency=MAX_LATENCY,
        max_batch_size=max_batch_size,
        cpus=_worker_core(),
    )(Digits)
    return service.running()


def _worker_core() -> list[int] | None:
    """The last core for the worker, the others for the service and the clients."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[-1:] if len(cores) > 1 else None


def _mean_batch_size(before: Stats, after: Stats) -> float:
    batches = after.batches - before.batches
    items = after.batches * after.mean_batch_size - before.batches * before.mean_batch_size
    return items / batches if batches else 0.0
