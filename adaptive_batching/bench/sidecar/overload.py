"""Five times what can be answered, from clients that send again when they are refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import quantiles

from adaptive_batching.bench.harness.report import Report, Row, Verdict
from adaptive_batching.bench.harness.servers import ServerProcess, baseline, service, sidecar
from adaptive_batching.bench.harness.traffic import INSTANCES, ROWS, Traffic
from adaptive_batching.bench.programs.apps import (
    OVERLOAD_BATCH,
    OVERLOAD_CAPACITY,
    OVERLOAD_PROMISE,
)
from adaptive_batching.load import Answer, End, OpenLoop, run_open_loop

_FIRST = 2.05  # times the capacity; with four in five sent again, and again, it is five times
_RETRIES = 2
_LIGHT = 0.25  # of the capacity
_GOODPUT = 0.9  # of the capacity
_LATE = 1.1  # times max_latency
_PATIENCE = 10.0  # seconds: clients that connect again would load the machine more than us
_ROWS = 4_000
_LARGE = Traffic(
    [b'{"instances": [' + b"[0.%d]," % n * (_ROWS - 1) + b"[0.%d]]}" % n for n in range(1, 10)]
)
_PROTOCOL = ("--protocol", "tensorflow", "--max-latency", f"{OVERLOAD_PROMISE}s")


@dataclass(frozen=True, slots=True)
class _Target:
    """What is overloaded.

    Attributes:
        name: What it is called in the report.
        url: Where requests are posted.
        bodies: Of them, by turns.
        capacity: How many it can answer in a second.
    """

    name: str
    url: str
    bodies: list[bytes]
    capacity: float


async def measure(*, loop: str, quick: bool) -> Report:
    """Overload what has a slow model behind it, and a sidecar that is the slowest itself."""
    measured, *phases = (0.4, 0.3, 0.7, 0.3) if quick else (2.0, 2.0, 30.0, 3.0)  # seconds
    rows: list[Row] = []
    verdicts: list[Verdict] = []
    for target in (_sidecar, _service, _saturated_sidecar):
        async with target(loop, measured) as each:
            found = _found(each, await _overload(each, *phases), *phases[:2])
        rows.append(found.row(each))
        if target is not _saturated_sidecar:  # refusing takes its time as well: less is left
            verdicts += found.verdicts(each.name)
    title = (
        f"overload: {phases[1]:g} s of five times the capacity, refused requests sent again up to"
        f" {_RETRIES} times included; max_latency {OVERLOAD_PROMISE * 1e3:.0f} ms, {loop}"
    )
    return Report(title, rows, verdicts)


@asynccontextmanager
async def _sidecar(loop: str, seconds: float) -> AsyncIterator[_Target]:
    size = ("--max-batch-size", f"{OVERLOAD_BATCH}")
    async with (
        baseline(loop, "slow-model") as model,
        sidecar(model.url, loop, *_PROTOCOL, *size) as server,
    ):
        capacity = await _capacity(model, seconds)
        yield _Target("sidecar, slow model", _predict(server), INSTANCES.bodies, capacity)


@asynccontextmanager
async def _service(loop: str, _seconds: float) -> AsyncIterator[_Target]:
    async with service("overload", loop) as server:
        url = f"{server.url}/model"
        yield _Target("service, slow model", url, ROWS.bodies, OVERLOAD_CAPACITY)


@asynccontextmanager
async def _saturated_sidecar(loop: str, seconds: float) -> AsyncIterator[_Target]:
    """A model that costs nothing, and requests of thousands of rows, which have to be cut out."""
    size = ("--max-batch-size", f"{16 * _ROWS}", "--max-queue", f"{64 * _ROWS}")
    async with (
        baseline(loop, "model") as model,
        sidecar(model.url, loop, *_PROTOCOL, *size) as server,
    ):
        url = _predict(server)
        path = url.removeprefix(server.url)
        figures = await server.under_load(path, _LARGE, connections=16, seconds=seconds)
        yield _Target("sidecar, itself saturated", url, _LARGE.bodies, figures["requests/s"])


async def _capacity(model: ServerProcess, seconds: float) -> float:
    """Items that a model server can answer in a second: full batches, one after the other."""
    rows = b",".join(ROWS.bodies[:OVERLOAD_BATCH])
    path = _predict(model).removeprefix(model.url)
    batch = Traffic([b'{"instances": [%b]}' % rows])
    figures = await model.under_load(path, batch, connections=1, seconds=seconds)
    return OVERLOAD_BATCH * figures["requests/s"]


def _predict(server: ServerProcess) -> str:
    return f"{server.url}/v1/models/slow:predict"


async def _overload(target: _Target, before: float, flood: float, after: float) -> list[Answer]:
    light = _LIGHT * target.capacity
    plan = OpenLoop(
        url=target.url,
        bodies=target.bodies,
        phases=[(light, before), (_FIRST * target.capacity, flood), (light, after)],
        retries=_RETRIES,
        patience=_PATIENCE,
        connections=900,  # select knows 1,024 files
    )
    return await run_open_loop(plan)


def _found(target: _Target, answers: list[Answer], before: float, flood: float) -> "_Found":
    sent = [each for each in answers if before <= each.scheduled < before + flood]
    taken = [_taken(each) for each in sent if each.end is End.ANSWERED]
    percentiles = quantiles(taken, n=100) if len(taken) > 1 else [0.0] * 99
    times = 1 / (flood * target.capacity)
    return _Found(
        sent=len(sent) * times,
        goodput=sum(map(_good, sent)) * times,
        p50=percentiles[49] / OVERLOAD_PROMISE,
        p99=percentiles[98] / OVERLOAD_PROMISE,
        recovery=_recovery(answers, before + flood, target.capacity) / OVERLOAD_PROMISE,
        errors=sum(each.end is End.ERROR for each in answers),
        lag=quantiles((each.lag for each in answers), n=100)[98],
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """What came of an overload: rates as shares of the capacity, times as shares of max_latency.

    Attributes:
        sent: How much came.
        goodput: How much was answered in time.
        p50: What half of the answers took.
        p99: What nearly all of them took.
        recovery: From the end of the overload to the last request that was not answered in time.
        errors: Requests that were neither answered nor refused.
        lag: How late the generator was with nearly all (seconds).
    """

    sent: float
    goodput: float
    p50: float
    p99: float
    recovery: float
    errors: int
    lag: float

    def row(self, target: _Target) -> Row:
        return {
            "overloaded": target.name,
            "capacity/s": target.capacity,
            "sent": self.sent,
            "goodput": self.goodput,
            "p50": self.p50,
            "p99": self.p99,
            "recovery": self.recovery,
            "errors": self.errors,
            "lag p99 ms": self.lag * 1e3,
        }

    def verdicts(self, what: str) -> list[Verdict]:
        return [
            Verdict(f"{what}: goodput", self.goodput, "at least", _GOODPUT, "of the capacity"),
            Verdict(f"{what}: p99 of answers", self.p99, "at most", _LATE, "max_latency"),
            Verdict(f"{what}: recovery", self.recovery, "at most", 1.0, "max_latency"),
        ]


def _taken(answer: Answer) -> float:
    """Seconds from the sending: a server is not to blame for what the generator was late."""
    return answer.latency - answer.lag


def _good(answer: Answer) -> bool:
    return answer.end is End.ANSWERED and _taken(answer) <= OVERLOAD_PROMISE


def _recovery(answers: list[Answer], flooded: float, capacity: float) -> float:
    """Seconds from the end of the overload to the last request that was not answered in time."""
    end = _end(answers, flooded, capacity)
    return max([each.scheduled - end for each in answers if not _good(each)] + [0.0])


def _end(answers: list[Answer], flooded: float, capacity: float) -> float:
    """When no more came than could be answered: what was refused last is still sent again."""
    instants = sorted(each.scheduled for each in answers)
    most = max(1, round(capacity * OVERLOAD_PROMISE))
    dense = [
        last
        for first, last in zip(instants, instants[most:], strict=False)
        if last - first < OVERLOAD_PROMISE
    ]
    return max(flooded, *dense[-1:])
