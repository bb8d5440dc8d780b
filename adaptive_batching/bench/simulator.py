"""How many requests a second of real time the simulator gets through."""

from functools import partial
from math import inf
from statistics import median

from adaptive_batching.bench.contest import take_turns
from adaptive_batching.bench.report import Report, Row, Verdict, ratio
from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Server, poisson
from adaptive_batching.units import format_duration

_RATE = 20_000.0  # requests a second: four workers at two thirds of what they can do
_WORKERS = 4
_REQUIRED = 100_000  # jobs a second


async def measure(*, quick: bool) -> Report:
    """Compare the policies, with and without a promise to keep."""
    seconds, rounds = (0.25, 1) if quick else (10.0, 5)
    arrivals = poisson(_RATE, seconds, seed=0)
    rows: list[Row] = []
    verdicts = []
    for promise in (inf, 25e-3):
        experiment = Experiment(arrivals, Server(5e-3, 5e-5), Limits(64, promise))
        contestants = {name: partial(_speed, experiment, name) for name in ("cork", "greedy")}
        speeds = await take_turns(contestants, rounds)
        within = "none" if promise == inf else format_duration(promise)
        for name, each in speeds.items():
            rows.append(
                {
                    "policy": name,
                    "max_latency": within,
                    "jobs/s": median(each),
                    "times greedy": ratio(each, speeds["greedy"]),
                }
            )
        what = f"cork, max_latency {within}"
        verdicts.append(Verdict(what, median(speeds["cork"]), "at least", _REQUIRED, "jobs/s"))
    title = (
        f"simulator: {_WORKERS} workers, Poisson {_RATE:,.0f}/s, 5 ms + 0.05 ms·n, batches of 64"
    )
    return Report(title, rows, verdicts)


async def _speed(experiment: Experiment, policy: str) -> float:
    return experiment.run(policy, _WORKERS).jobs_per_second or 0.0
