"""Does the simulator say what a service does?

Covers: mean, median, 99th percentile and goodput of a live service beside the simulation of the
same requests, with the difference (goodput: in points); `cork` with 1 and 2 workers, models that
sleep, batches of 32, Poisson traffic of 0.2 to 0.9 of capacity.

With --recorded it goes the way of a user: `serve --record`, clients over HTTP, then `fit` and
`simulate` of what was recorded, with the median of SEEDS seeds of luck. Latencies are then those of
the recording, from the arrival at the service. Nothing but the recording is told to the simulation,
so a busy machine is in both.

Without it, a measurement takes a machine that has time: where the generator was late by more than
LAG (99th percentile), it is repeated, at most ATTEMPTS times, and marked with * if it was late each
time. What both printed once stands in docs/explanation/fidelity.md; there is no .out beside it, as
no two runs of a measurement agree. Arguments: seconds of traffic in each cell (5).
"""

import argparse
import asyncio
import csv
import json
import logging
import signal
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import aiohttp
import numpy as np

from adaptive_batching.core import Limits
from adaptive_batching.load import OpenLoop, run_open_loop
from adaptive_batching.replay import Comparison, Conditions, compare
from adaptive_batching.simulation import poisson
from adaptive_batching.simulation.traffic.arrivals import Times

MODELS = ((20e-3, 1e-3, 150e-3), (10e-3, 0.5e-3, 60e-3))  # fixed, per item, promise (seconds)
LOADS = (0.2, 0.5, 0.8, 0.9)  # of capacity
MAX_BATCH_SIZE = 32
LAG = 2e-3  # seconds
ATTEMPTS = 3
SEEDS = 3
COMMAND = (sys.executable, "-m", "adaptive_batching")
SERVICE = """
import time
from adaptive_batching.marshal.service.service import Service
service = Service("sleeping")

@service.endpoint("/sleep", max_batch_size={size}, max_latency={promise}, workers={workers})
class Sleeper:
    def __call__(self, items):
        time.sleep({fixed} + {per_item} * len(items))
        return items
"""


def conditions_of(model: tuple[float, float, float], workers: int) -> Conditions:
    """One of the models, on so many workers."""
    fixed, per_item, promise = model
    return Conditions(fixed, per_item, Limits(MAX_BATCH_SIZE, promise), workers=workers)


def rate_of(conditions: Conditions, load: float) -> float:
    """Requests a second."""
    full = conditions.fixed + conditions.per_item * MAX_BATCH_SIZE
    return load * conditions.workers * MAX_BATCH_SIZE / full


async def measure(conditions: Conditions, load: float, seconds: float) -> Comparison:
    """One cell, on a machine that had time for it if there was one."""
    best: Comparison | None = None
    for attempt in range(ATTEMPTS):
        instants = poisson(rate_of(conditions, load), seconds, seed=attempt)
        comparison = await compare(conditions, instants, warmup=seconds / 5)
        best = comparison if best is None or comparison.lag < best.lag else best
        if best.lag <= LAG:
            break
    assert best is not None
    return best


async def record(conditions: Conditions, instants: Times, folder: Path) -> Path:
    """Serve, send a request at each instant, and return the recording."""
    limits, path = conditions.limits, folder / "recorded.csv"
    text = SERVICE.format(
        size=limits.max_batch_size,
        promise=limits.max_latency,
        workers=conditions.workers,
        fixed=conditions.fixed,
        per_item=conditions.per_item,
    )
    (folder / "sleeping.py").write_text(text)
    options = ("--port=0", f"--record={path}", "--drain-delay=0s", "--log-level=error")
    served = (*COMMAND, "serve", "sleeping:service", *options)
    process = await asyncio.create_subprocess_exec(*served, stdout=subprocess.PIPE, cwd=folder)
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).split()[1].decode().rpartition("/")[0]
        await _ready(url)
        bodies = [b"%d" % number for number in range(64)]
        plan = OpenLoop(url=f"{url}/sleep", bodies=bodies, instants=instants.tolist())
        await run_open_loop(plan)
        process.send_signal(signal.SIGTERM)
        await process.stdout.read()
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return path


async def _ready(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{url}/readyz") as response:
                if response.status == 200:
                    return
            await asyncio.sleep(0.05)


class Figures(NamedTuple):
    """Of requests after the warm-up: latencies in seconds, goodput as a share."""

    mean_latency: float
    p50_latency: float
    p99_latency: float
    goodput: float


def recorded(path: Path, promise: float, warmup: float) -> Figures:
    """What the service itself saw."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    first = min(float(row["t_seconds"]) for row in rows)
    counted = [row for row in rows if float(row["t_seconds"]) - first >= warmup]
    done = [float(row["latency_seconds"]) for row in counted if row["outcome"] == "done"]
    p50, p99 = np.quantile(done, [0.5, 0.99]).tolist()
    on_time = sum(latency <= promise for latency in done)
    return Figures(float(np.mean(done)), p50, p99, on_time / len(counted))


def foretold(path: Path, conditions: Conditions, warmup: float) -> Figures:
    """What `simulate` makes of the recording, with what `fit` makes of it; medians over seeds."""
    model = path.with_name("model.json")
    _command("fit", path, "--save", model)
    limits = conditions.limits
    told: tuple[object, ...] = ("--max-batch-size", limits.max_batch_size)
    told += ("--max-latency", f"{limits.max_latency}s", "--workers", conditions.workers)
    told += ("--policy", conditions.policy, "--warmup", warmup)
    rows = [
        _command("simulate", path, "--latency-from", model, *told, "--seed", seed)["rows"][0]
        for seed in range(SEEDS)
    ]
    return Figures(*(median(row[name] for row in rows) for name in Figures._fields))


def _command(*arguments: object) -> Any:
    line = (*COMMAND, *map(str, arguments), "--format", "json")
    return json.loads(subprocess.run(line, capture_output=True, check=True).stdout)  # noqa: S603


async def both(
    conditions: Conditions, load: float, seconds: float, seed: int = 0
) -> tuple[Figures, Figures]:
    """One cell as a user sees it: recorded, and foretold from the recording."""
    instants = poisson(rate_of(conditions, load), seconds, seed=seed)
    warmup = seconds / 5
    with TemporaryDirectory() as folder:
        path = await record(conditions, instants, Path(folder))
        seen = recorded(path, conditions.limits.max_latency, warmup)
        return seen, foretold(path, conditions, warmup)


def cells(measured: Any, simulated: Any) -> list[str]:
    """What was measured, and how far the simulation is off it."""
    shown = []
    for name in ("mean_latency", "p50_latency", "p99_latency"):
        seconds, told = getattr(measured, name), getattr(simulated, name)
        shown.append(
            f"{seconds * 1e3:7.1f} {told / seconds - 1:+6.1%}" if seconds and told else "-"
        )
    good = measured.goodput or 0.0
    return [*shown, f"{good:6.1%} {((simulated.goodput or 0.0) - good) * 100:+5.1f}"]


def line(comparison: Comparison) -> str:
    """The same, and how late the generator was."""
    late = "*" if comparison.lag > LAG else ""
    told = cells(comparison.measured, comparison.simulated)
    return " | ".join([*told, f"{comparison.lag * 1e3:4.1f} ms{late}"])


async def main() -> None:
    """Model by model, so that an interrupted run is of use as well."""
    parser = argparse.ArgumentParser(description="Hold the simulator against a live service.")
    parser.add_argument("seconds", type=float, nargs="?", default=5.0, help="of traffic, each cell")
    parser.add_argument("--recorded", action="store_true", help="serve --record, fit, simulate")
    args = parser.parse_args()
    logging.getLogger("adaptive_batching").setLevel(logging.CRITICAL)  # refusals are in the goodput
    heads = ["mean, ms", "p50, ms", "p99, ms", "goodput", *([] if args.recorded else ["lag"])]
    print(f"{'model, workers, load':27} | " + " | ".join(f"{head:14}" for head in heads))
    for model in MODELS:
        for workers in (1, 2):
            conditions = conditions_of(model, workers)
            name = f"{model[0] * 1e3:.0f} ms + {model[1] * 1e3:g} ms * n"
            for load in LOADS:
                print(f"{name:>16} {workers:4} {load:5} | ", end="", flush=True)
                if args.recorded:
                    told = " | ".join(cells(*await both(conditions, load, args.seconds)))
                else:
                    told = line(await measure(conditions, load, args.seconds))
                print(told, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
