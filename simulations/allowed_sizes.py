"""What does it gain to tell the scheduler which sizes of batches a model runs?

Covers: goodput in per cent of all requests and mean latency in ms of `cork` that knows nothing of
the sizes (line), of `cork` that knows them (declared), and of `triton` with the same sizes as its
preferred ones (no delay; it sheds nothing). Then the goodput of declared sizes as a multiple of the
line's, beside the bound: that of a server which knows all arrivals, with several workers of one
that is as fast as all. Last, how far the mean latency is from triton's.

A batch is padded to 8, 16, 32 or 64 items, or to the next power of two, and then takes 5 ms +
0.3 ms * n (steep), 5 ms + 0.05 ms * n (flat) or 1 ms + 0.3 ms * n (items), with a jitter of 0.05.
Traffic is Poisson, its load a share of what full batches can do; the limit is 2 times a full
batch's time, or less in the second part. Three seeds are averaged.

The scenarios are those in which the line lost most against triton, of 500 that `search.py` had
drawn; each row has its options of `simulate`.

Answer: within two full batches no policy answers more than 1.06 times as many in time as the line
does at 0.9. Within less, or in a closed loop (#463), declared sizes answer up to 1.34 times as
many. Where items cost much (steep, items), the wait is shorter as well: up to nine tenths of the
load the mean is a tenth to seven tenths lower than the line's, which pads 33 items to 64. Triton's
preferred sizes give about the same mean up to a load of 0.9, but at 1.1 they answer 3 to 23 % in
time. Four workers (items, 0.9) are a tenth to a fifth slower than triton's.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from drawn import drawn
from spread import spread

from adaptive_batching.cli.commands.simulate import command
from adaptive_batching.cli.options.conditions import experiment_of
from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Padded, Server, limit_of, poisson
from adaptive_batching.workers.pinning import available

STEPS = {"8 to 64": (8, 16, 32, 64), "powers": (1, 2, 4, 8, 16, 32, 64)}
MODELS = {"steep": (5e-3, 0.3e-3), "flat": (5e-3, 0.05e-3), "items": (1e-3, 0.3e-3)}  # seconds
MOST, REQUESTS, SEEDS = 64, 10_000, (0, 1, 2)
SCENARIOS = {  # workers, the largest size, and options
    "463": (1, 256, """--arrivals closed --users 422 --think 0.96ms-3.8ms --duration 2.946
        --turnaround 0.51ms-4.92ms --latency 4.9794ms+0.076404ms --jitter 0.3 --warmup 1.473
        --max-latency 46.3ms --timer-resolution 1ms --loop-delay 0.3ms"""),
    "447": (4, 128, """--arrivals closed --users 335 --think 0ms --duration 3.036
        --turnaround 0.13ms-1.26ms --worker 3x0.536206ms+0.119668ms --warmup 1.518
        --worker 0.697068ms+0.155568ms --jitter 0.1 --max-latency 69ms --timer-resolution 1ms
        --loop-delay 0.3ms"""),
    "344": (2, 8, """--arrivals poisson --rate 347.95 --duration 94.8414 --jitter 0.1
        --latency 7.23964ms+3.80843ms --pause 0.5%:73.8ms --warmup 47.4207
        --max-latency 357.6ms"""),
    "44": (4, 256, """--arrivals poisson --rate 52840.66 --duration 1.8168 --jitter 0.05
        --latency 1.53728ms+0.0659093ms --pause 0.5%:32.9ms --warmup 0.9084
        --max-latency 105.4ms"""),
    "435": (8, 64, """--arrivals poisson --rate 4155.95 --duration 14.7834 --warmup 7.3917
        --latency 23.6617ms+1.24724ms --max-latency 789.2ms --timer-resolution 1ms"""),
}  # fmt: skip
OF_THE_COMMAND = {
    "trace", "seed", "policies", "workers", "replications", "with_limit", "report", "loads", "form",
}  # fmt: skip


class Row(NamedTuple):
    """One row of the table."""

    model: str
    steps: str
    workers: int
    load: float
    promise: float = 2.0


def traffic(row: Row, seed: int) -> Experiment:
    """Poisson arrivals at padded workers, of which the scheduler knows no sizes."""
    line = Server(*MODELS[row.model], jitter=0.05)
    server = replace(line, curve=Padded(line.mean, STEPS[row.steps]))
    rate = row.load * row.workers * MOST / line.mean(MOST)
    limits = Limits(MOST, row.promise * line.mean(MOST))
    arrivals = poisson(rate, REQUESTS / rate, seed=seed)
    return Experiment(arrivals, server, limits, warmup=1000 / rate, seed=seed)


def scenario(name: str, steps: tuple[int, ...], seed: int) -> Experiment:
    """What the command would run."""
    _, most, options = SCENARIOS[name]
    sizes = ("--max-batch-size", str(most), "--hide-sizes", "--pad-to", ",".join(map(str, steps)))
    given = command.make_context("simulate", [*shlex.split(options), *sizes]).params
    mine = {name: value for name, value in given.items() if name not in OF_THE_COMMAND}
    return experiment_of(given["trace"], mine, seed + 1)


def columns(
    experiments: Sequence[Experiment], workers: int, steps: tuple[int, ...], *, bounded: bool
) -> str:
    """Averages over the seeds."""
    preferred = f"triton:{','.join(map(str, steps))}"
    found = []
    for plain in experiments:
        told = replace(plain, limits=replace(plain.limits, sizes=steps))
        runs = ((plain, "cork"), (told, "cork"), (plain, preferred))
        rows = [each.run(policy, workers) for each, policy in runs]
        found.append(
            [(100 * (row.goodput or 0.0), 1e3 * (row.mean_latency or 0.0)) for row in rows]
        )
    line, declared, triton = np.mean(found, axis=0)
    cells = " | ".join(f"{good:5.1f} {mean:5.1f}" for good, mean in (line, declared, triton))
    bound = "     "
    if bounded:
        most = np.mean([limit_of(plain, workers).goodput or 0.0 for plain in experiments])
        bound = f"{100 * most / line[0]:4.2f}x"
    more, later = declared[0] / line[0], 100 * (declared[1] / triton[1] - 1)
    return f"{cells} | {more:6.2f}x {bound} | {later:+4.0f}%"


def told(row: Row | str) -> str:
    """One row of any part."""
    if isinstance(row, str):
        workers, most, _ = SCENARIOS[row]
        steps = (
            (1, 8, 16, 32, 64)
            if row == "435"
            else tuple(2**power for power in range(most.bit_length()))
        )
        cases = [scenario(row, steps, seed) for seed in SEEDS]
        return f"#{row:36} | {columns(cases, workers, steps, bounded=False)}"
    cases = [traffic(row, seed) for seed in SEEDS]
    shown = columns(cases, row.workers, STEPS[row.steps], bounded=True)
    condition = f"{row.model:5} {row.steps:7} {row.workers:7} {row.load:4.0%}"
    return f"{condition} {row.promise:9} | {shown}"


def main() -> None:
    """Print all parts."""
    names = (f"{name:>11}" for name in ("line", "declared", "triton"))
    print(f"model steps   workers load max_latency | {' | '.join(names)} | goodput bound | mean")
    loads = [
        Row(model, steps, *each)
        for model, steps in (*product(("steep", "flat"), STEPS), ("items", "8 to 64"))
        for each in product((1, 4), (0.6, 0.8, 0.9, 1.0, 1.1))
    ]
    tight = [Row(*each) for each in product(MODELS, ("8 to 64",), (1, 4), (0.9,), (1.1, 1.25, 1.5))]
    work = partial(spread, told, jobs=min(2, len(available())))
    for line in work(drawn([*loads, *tight, *SCENARIOS])):
        print(line)


if __name__ == "__main__":
    main()
