"""How many requests the simulator gets through in a second of one core."""

from collections.abc import Sequence
from functools import partial
from math import inf
from statistics import median
from time import process_time

from adaptive_batching.bench.harness.contest import take_turns
from adaptive_batching.bench.harness.report import Report, Row, Verdict, ratio
from adaptive_batching.core import Limits, Scheduler, make_policy
from adaptive_batching.simulation import Server, poisson, simulate
from adaptive_batching.units import format_duration

_RATE = 20_000.0  # requests a second: four workers at two thirds of what they can do
_WORKERS = 4
_WORKER = Server(5e-3, 5e-5).service()
_REQUIRED = {"cork": 200_000, "greedy": 400_000}  # jobs a second of one core


async def measure(*, quick: bool) -> Report:
    """Compare the policies, with and without a promise to keep."""
    seconds, rounds = (0.25, 1) if quick else (10.0, 5)
    arrivals = poisson(_RATE, seconds, seed=0).tolist()
    rows: list[Row] = []
    verdicts = []
    for promise in (inf, 25e-3):
        limits = Limits(64, promise)
        contestants = {name: partial(_speed, name, limits, arrivals) for name in _REQUIRED}
        speeds = await take_turns(contestants, rounds)
        within = "none" if promise == inf else format_duration(promise)
        for name, each in speeds.items():
            speed, what = median(each), f"{name}, max_latency {within}"
            row: Row = {"policy": name, "max_latency": within, "jobs/s": speed}
            rows.append({**row, "times greedy": ratio(each, speeds["greedy"])})
            verdicts.append(Verdict(what, speed, "at least", _REQUIRED[name], "jobs/s"))
    title = (
        f"simulator: {_WORKERS} workers, Poisson {_RATE:,.0f}/s, 5 ms + 0.05 ms·n, batches of 64"
    )
    return Report(title, rows, verdicts)


async def _speed(policy: str, limits: Limits, arrivals: Sequence[float]) -> float:
    """By the processor's clock, which other programs on the machine do not advance."""
    scheduler = Scheduler(make_policy(policy), limits, _WORKERS)
    begun = process_time()
    simulate(arrivals, scheduler, _WORKER)
    return len(arrivals) / (process_time() - begun)
