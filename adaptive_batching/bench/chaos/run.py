"""Workers that are killed and stopped at random under load, beside workers left in peace."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from statistics import quantiles

from adaptive_batching.bench.chaos.callers import Outcomes, call_for
from adaptive_batching.bench.chaos.holdings import Holdings
from adaptive_batching.bench.chaos.model import CAPACITY, FIXED, MAX_BATCH_SIZE, PER_ITEM, Device
from adaptive_batching.bench.harness.loops import loop_name
from adaptive_batching.bench.harness.report import Report, Row, Verdict
from adaptive_batching.core import Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.workers.handler.handler_reference import HandlerReference
from adaptive_batching.workers.pool.pool import WorkerPool
from adaptive_batching.workers.process.process_launcher import ProcessLauncher

_WORKERS = 4
_LOAD = 0.5  # of the capacity of all workers
_MAX_LATENCY = 0.5  # seconds
_TIMEOUT = 1.0  # seconds, after which a stopped worker is killed
_REQUIRED = 0.9  # of the right answers of the run in peace


@dataclass(frozen=True, slots=True)
class _Run:
    outcomes: Outcomes
    entered: int  # outcomes in the dispatcher's own ledger
    attacks: Mapping[signal.Signals, int]
    restarts: int
    leaked: int

    @property
    def unaccounted(self) -> int:
        """Calls without an outcome, and outcomes without a call."""
        calls = self.outcomes.calls
        return abs(calls - self.outcomes.ends.total()) + abs(calls - self.entered)


class Attacker:
    """Sends SIGKILL or SIGSTOP to a worker now and then.

    Args:
        workers: Whose processes it attacks.
        every: Seconds between two attacks, in the mean.
        random: Draws when a worker is attacked, which one and how.

    Attributes:
        attacks: How often it did, by signal.
    """

    def __init__(self, workers: WorkerPool, every: float, random: Random) -> None:
        self.attacks: Counter[signal.Signals] = Counter()
        self._workers = workers
        self._every = every
        self._random = random

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._every))
            if self._workers.pids:
                self._attack(self._random.choice(self._workers.pids))

    def _attack(self, pid: int) -> None:
        how = self._random.choice([signal.SIGKILL, signal.SIGSTOP])
        with suppress(ProcessLookupError):  # it has just died by itself
            os.kill(pid, how)
            self.attacks[how] += 1


async def measure(*, duration: float, every: float, seed: int) -> Report:
    """Send the same calls twice, and attack the workers in one of the runs.

    Args:
        duration: Seconds of each run.
        every: Seconds between two attacks, in the mean.
        seed: Of the calls and the attacks.
    """
    await _speak_to_any_process()
    peace = await _run(duration, None, seed)
    chaos = await _run(duration, every, seed)
    runs = (peace, chaos)
    goodput = chaos.outcomes.ends["right"] / max(1, peace.outcomes.ends["right"])
    bad = sum(run.outcomes.ends["wrong"] + run.outcomes.ends["unexpected"] for run in runs)
    verdicts = [
        Verdict("goodput", goodput, "at least", _REQUIRED, "of that in peace"),
        Verdict("wrong answers, unexpected errors", bad, "at most", 0, "calls"),
        Verdict("not exactly one outcome", sum(r.unaccounted for r in runs), "at most", 0, "calls"),
        Verdict("leaked", sum(r.leaked for r in runs), "at most", 0, "files, processes, tasks"),
    ]
    title = (
        f"chaos: SIGKILL or SIGSTOP every {every:g} s to one of {_WORKERS} workers of"
        f" {FIXED * 1e3:g} ms + {PER_ITEM * 1e3:g} ms·n at {_LOAD:.0%} load for {duration:g} s,"
        f" max_latency {_MAX_LATENCY:g} s, seed {seed}, {loop_name()}"
    )
    return Report(title, [_row("in peace", peace), _row("attacked", chaos)], verdicts)


async def _speak_to_any_process() -> None:
    """With its first stream uvloop opens a file that it keeps: that is no leak of a run."""
    any_process = await asyncio.create_subprocess_exec("true", stdout=asyncio.subprocess.PIPE)
    await any_process.communicate()


async def _run(duration: float, every: float | None, seed: int) -> _Run:
    before = Holdings.now()
    launcher = ProcessLauncher(HandlerReference.to(Device))
    workers = WorkerPool(launcher, _WORKERS, timeout=_TIMEOUT, start_timeout=60.0)
    dispatcher = Dispatcher[int, int](workers, Limits(MAX_BATCH_SIZE, _MAX_LATENCY))
    attacker = Attacker(workers, every or duration, Random(seed))  # noqa: S311  not a secret
    rate = _LOAD * _WORKERS * CAPACITY
    async with dispatcher, AsyncExitStack() as stack:
        if every is not None:
            await stack.enter_async_context(_background(attacker))
        outcomes = await call_for(dispatcher, rate, duration, Random(seed))  # noqa: S311  likewise
    entered = sum(dispatcher.stats().requests.values())
    restarts = workers.health.restarts
    return _Run(outcomes, entered, attacker.attacks, restarts, await before.leaked())


@asynccontextmanager
async def _background(attacker: Attacker) -> AsyncIterator[None]:
    attacking = asyncio.create_task(attacker.run())
    try:
        yield
    finally:
        attacking.cancel()
        await asyncio.wait([attacking])


def _row(name: str, run: _Run) -> Row:
    ends, latencies = run.outcomes.ends, run.outcomes.latencies
    percentiles = quantiles(latencies, n=100) if len(latencies) > 1 else [0.0] * 99
    return {
        "workers": name,
        "killed": run.attacks[signal.SIGKILL],
        "stopped": run.attacks[signal.SIGSTOP],
        "restarts": run.restarts,
        "calls": run.outcomes.calls,
        "right": ends["right"],
        "refused": ends["refused"],
        "late": ends["late"],
        "lost": ends["lost"],
        "p50 ms": percentiles[49] * 1e3,
        "p99 ms": percentiles[98] * 1e3,
    }
