"""One model behind one service, first without batching and then with it."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from math import ceil
from statistics import median

import msgspec
import numpy as np

from adaptive_batching.demo.digits import BatchDuration, Digits, images, measure
from adaptive_batching.dispatcher.stats import Stats
from adaptive_batching.load import Answer, End, OpenLoop, run_open_loop
from adaptive_batching.marshal.service.runner import Running
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.workers.pinning import CAN_PIN, available

MAX_BATCH_SIZE = 64
_PATH = "/predict"
_UNBATCHED = 2.0  # times what the model can do without batching
_BATCHED = (0.5, 0.75, 1.5)  # of what it can do in batches; the last is beyond its capacity
_BATCHES_WITHIN = 5  # full batches within `max_latency`: time to wait, to run and to spare
_SLOWED = 2.0  # times the model alone; transport and JSON explain less
_LATE = 0.1  # of `max_latency`; a generator that sends later than that measures itself


@dataclass(frozen=True, slots=True)
class Phase:
    """What one rate of requests came to.

    Attributes:
        max_batch_size: Items in a batch at the most; 1 is batching switched off.
        load: The rate, as a share of what the model can do with each request alone, or batched.
        offered: Requests sent per second.
        on_time_per_second: Requests answered within `max_latency` per second.
        p50: Median latency of the answered (seconds from when they were due); None without any.
        p99: 99th percentile of it.
        mean_batch_size: Items.
        refused: Requests turned away.
    """

    max_batch_size: int
    load: str
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
        max_latency: Seconds within which an answer is in time: five full batches of the model.
        busy: Programs that wanted each core when it began (the load average).
        answers: Answers received.
        wrong: Answers that were not the model's own.
        lost: Requests that got no answer and no refusal either.
        phases: In the order in which they ran.
        fitted: What the scheduler has learned about the duration of a batch.
        measured: The same, measured on the model itself.
        not_sent: Requests per second that this machine's own generator could not send in time; None
            if it could send all.
    """

    max_latency: float = 0.0
    busy: float = 0.0
    answers: int = 0
    wrong: int = 0
    lost: int = 0
    phases: list[Phase] = field(default_factory=list)
    fitted: BatchDuration | None = None
    measured: BatchDuration | None = None
    not_sent: float | None = None

    @property
    def disturbed(self) -> bool:
        """Whether other programs took so much of the machine that the figures are theirs."""
        if self.fitted is None or self.measured is None:
            return self.busy > 1
        slowed = self.fitted.of(MAX_BATCH_SIZE) / self.measured.of(MAX_BATCH_SIZE)
        return self.busy > 1 or slowed > _SLOWED

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
        self.findings = Findings(busy=os.getloadavg()[0] / len(available()))
        self._seconds = seconds
        self._progress = progress
        self._bodies: list[bytes] = []
        self._truth: list[int] = []
        self._unbatched_rate = 0.0  # requests a second, beyond what the model can do one by one

    async def unbatched(self) -> None:
        """Measure the model, then serve it one item at a time."""
        self._progress("training the model")
        samples = images()
        model = await asyncio.to_thread(Digits)
        self._truth = model(samples)
        self._bodies = [msgspec.json.encode(sample) for sample in samples]
        measured = await asyncio.to_thread(measure, model, samples)
        self.findings.measured = measured
        self.findings.max_latency = ceil(_BATCHES_WITHIN * measured.of(MAX_BATCH_SIZE) * 100) / 100
        self._unbatched_rate = _UNBATCHED * measured.most_per_second(1)
        async with self._service(max_batch_size=1) as running:
            await self._phase(running, 1, self._unbatched_rate, f"{_UNBATCHED:g} alone")

    @asynccontextmanager
    async def batched(self) -> AsyncIterator[Running]:
        """Serve it in batches at rising rates; the service is up while the block runs."""
        async with self._service(MAX_BATCH_SIZE) as running:
            await self._phase(
                running, MAX_BATCH_SIZE, self._unbatched_rate, f"{_UNBATCHED:g} alone"
            )
            for share in _BATCHED:
                # By what batches take here: with HTTP beside it, and whatever else runs.
                most = self._learned(running).most_per_second(MAX_BATCH_SIZE)
                await self._phase(running, MAX_BATCH_SIZE, share * most, f"{share:g} batched")
                if self.findings.not_sent is not None:
                    break
            self.findings.fitted = self._learned(running)
            yield running

    def _service(self, max_batch_size: int) -> AbstractAsyncContextManager[Running]:
        service = Service("digits")
        service.endpoint(
            _PATH,
            max_latency=self.findings.max_latency,
            max_batch_size=max_batch_size,
            cpus=_worker_core(),
        )(Digits)
        return service.running()

    def _learned(self, running: Running) -> BatchDuration:
        stats = running.dispatchers[_PATH].stats()
        return BatchDuration(stats.fixed, stats.per_item)

    async def _phase(self, running: Running, max_batch_size: int, rate: float, load: str) -> None:
        how = f"batches of up to {max_batch_size}" if max_batch_size > 1 else "no batching"
        self._progress(f"{how}, {rate:,.0f} requests/s for {self._seconds:g} s")
        dispatcher = running.dispatchers[_PATH]
        before = dispatcher.stats()
        plan = OpenLoop(
            url=running.url + _PATH, bodies=self._bodies, phases=[(rate, self._seconds)]
        )
        answers = await run_open_loop(plan)
        if median(answer.lag for answer in answers) > _LATE * self.findings.max_latency:
            self.findings.not_sent = rate
        mean = _mean_batch_size(before, dispatcher.stats())
        phase = self._account(answers, max_batch_size, load, mean)
        self.findings.phases.append(phase)

    def _account(self, answers: list[Answer], max_batch_size: int, load: str, mean: float) -> Phase:
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
            load=load,
            offered=len(answers) / self._seconds,
            on_time_per_second=int((latencies <= findings.max_latency).sum()) / self._seconds,
            p50=p50,
            p99=p99,
            mean_batch_size=mean,
            refused=refused,
        )


def _worker_core() -> list[int] | None:
    """The last core for the worker, the others for the service and the clients."""
    cores = sorted(available())
    return cores[-1:] if len(cores) > 1 and CAN_PIN else None


def _mean_batch_size(before: Stats, after: Stats) -> float:
    batches = after.batches - before.batches
    items = after.batches * after.mean_batch_size - before.batches * before.mean_batch_size
    return items / batches if batches else 0.0
