"""Does the simulator say what a service does?

Covers: mean, median, 99th percentile and goodput of a live service beside the simulation of the
same requests, with the difference (goodput: in points); `cork` with 1 and 2 workers, models that
sleep, batches of 32, Poisson traffic of 0.2 to 0.9 of capacity.

A measurement takes a machine that has time: where the generator was late by more than LAG (99th
percentile), it is repeated, at most ATTEMPTS times, and marked with * if it was late each time.
What it printed once stands in docs/how-to/simulate.md; there is no .out beside it, as no two runs
of a measurement agree. Arguments: seconds of traffic in each cell (5).
"""

import asyncio
import logging
import sys

from adaptive_batching.core import Limits
from adaptive_batching.replay import Comparison, Conditions, compare
from adaptive_batching.simulation import poisson

MODELS = ((20e-3, 1e-3, 150e-3), (10e-3, 0.5e-3, 60e-3))  # fixed, per item, promise (seconds)
LOADS = (0.2, 0.5, 0.8, 0.9)  # of capacity
MAX_BATCH_SIZE = 32
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
LAG = 2e-3  # seconds
ATTEMPTS = 3


async def measure(conditions: Conditions, load: float) -> Comparison:
    """One cell, on a machine that had time for it if there was one."""
    full = conditions.fixed + conditions.per_item * MAX_BATCH_SIZE
    capacity = conditions.workers * MAX_BATCH_SIZE / full
    best: Comparison | None = None
    for attempt in range(ATTEMPTS):
        instants = poisson(load * capacity, SECONDS, seed=attempt)
        comparison = await compare(conditions, instants, warmup=SECONDS / 5)
        best = comparison if best is None or comparison.lag < best.lag else best
        if best.lag <= LAG:
            break
    assert best is not None
    return best


def line(comparison: Comparison) -> str:
    """Measured, and how far the simulation is off it."""
    measured, simulated = comparison.measured, comparison.simulated
    cells = []
    for name in ("mean_latency", "p50_latency", "p99_latency"):
        seconds, told = getattr(measured, name), getattr(simulated, name)
        cells.append(
            f"{seconds * 1e3:7.1f} {told / seconds - 1:+6.1%}" if seconds and told else "-"
        )
    good = measured.goodput or 0.0
    cells.append(f"{good:6.1%} {((simulated.goodput or 0.0) - good) * 100:+5.1f}")
    late = "*" if comparison.lag > LAG else ""
    return " | ".join([*cells, f"{comparison.lag * 1e3:4.1f} ms{late}"])


async def main() -> None:
    """Model by model, so that an interrupted run is of use as well."""
    logging.getLogger("adaptive_batching").setLevel(logging.CRITICAL)  # refusals are in the goodput
    heads = ("mean, ms", "p50, ms", "p99, ms", "goodput", "lag")
    print(f"{'model, workers, load':27} | " + " | ".join(f"{head:14}" for head in heads))
    for fixed, per_item, promise in MODELS:
        for workers in (1, 2):
            limits = Limits(MAX_BATCH_SIZE, promise)
            conditions = Conditions(fixed, per_item, limits, workers=workers)
            model = f"{fixed * 1e3:.0f} ms + {per_item * 1e3:g} ms * n"
            for load in LOADS:
                print(f"{model:>16} {workers:4} {load:5} | ", end="", flush=True)
                print(line(await measure(conditions, load)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
