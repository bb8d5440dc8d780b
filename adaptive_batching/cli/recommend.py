"""`adaptive-batching recommend`: how many workers some traffic needs."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from adaptive_batching.cli.conditions import condition_options, conditions, title
from adaptive_batching.cli.endings import policy_errors_told, writing
from adaptive_batching.cli.parameters import FORMAT, GOODPUT, POLICY, RANGE, WIDTH, expect_shorter
from adaptive_batching.cli.worker_options import expect_worker
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.capacity import Point, Target, Trial, curve, smallest
from adaptive_batching.simulation.experiment import Experiment


@click.command("recommend", no_args_is_help=True, context_settings={"show_default": True})
@condition_options
@click.option("--policy", type=POLICY, default="cork", help="As of simulate.")
@click.option("--workers", type=RANGE, default="1..8", help="To choose from.")
@click.option(
    "--goodput",
    type=GOODPUT,
    default="99%",
    help="Share of all requests that are to be answered within --max-latency.",
)
@FORMAT
def command(
    trace: Path | None,
    *,
    policy: str,
    workers: range,
    goodput: float,
    seed: int,
    form: str,
    **options: Any,
) -> None:
    """Find the fewest workers that answer TRACE in time, and the best batch limit for them.

    They hold the goodput, and the p99 of what is answered is within --max-latency. The limits tried
    are --max-batch-size and the powers of two below it. Then the curve: the same workers under less
    and more of the traffic. Exit status 1 if no number of --workers is enough.
    """
    expect_worker(options["drifts"], workers[-1])
    try:
        with policy_errors_told():
            traffic, experiment = conditions(trace, seed, options)
            expect_shorter("warmup", experiment.warmup, traffic.duration)
            target = Target(goodput, _promise(experiment))
            best, tried = smallest(experiment, policy, workers, target)
            points = [] if best is None else list(curve(experiment, policy, best, target))
    except (TraceError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    if form == "json":
        answer = {
            "trace": traffic.facts,
            "target": asdict(target),
            "recommended": None if best is None else _facts(best),
            "tried": [{**_facts(trial), "holds": trial.holds} for trial in tried],
            "curve": [asdict(point) for point in points],
        }
        with writing():
            click.echo(json.dumps(answer, indent=2, allow_nan=False))
    else:
        with writing():
            _print(best, tried, points, f"{title(traffic, experiment)}, seed {seed}")
    if best is None:
        raise click.exceptions.Exit(1)


def _promise(experiment: Experiment) -> float:
    promise = experiment.limits.max_latency
    if promise == inf:
        raise click.UsageError("expected --max-latency, which workers are to hold, got none")
    return promise


def _facts(trial: Trial) -> dict[str, Any]:
    return {
        "workers": trial.row.workers,
        "max_batch_size": trial.max_batch_size,
        "goodput": trial.row.goodput,
        "p99_latency": trial.row.p99_latency,
        "mean_latency": trial.row.mean_latency,
    }


def _print(best: Trial | None, tried: Sequence[Trial], points: list[Point], heading: str) -> None:
    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    console.print(heading)
    if best is None:
        console.print(_table(tried), "no number of workers was enough", sep="")
        return
    console.print(_table([trial for trial in tried if trial.row.workers == best.row.workers]))
    console.print(f"--workers {best.row.workers} --max-batch-size {best.max_batch_size}\n")
    console.print("The same under less and more of the traffic")
    drawn = _columns("rate")
    for point in points:
        drawn.add_row(f"{point.scale:g}", *_cells(point))
    console.print(drawn)


def _table(trials: Sequence[Trial]) -> Table:
    drawn = _columns("workers", "batch limit")
    for trial in trials:
        drawn.add_row(str(trial.row.workers), str(trial.max_batch_size), *_cells(trial))
    return drawn


def _columns(*first: str) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD)
    for name in (*first, "goodput", "p99 ms", "mean ms", "batch", "holds"):
        drawn.add_column(name, justify="right", no_wrap=True)
    return drawn


def _cells(simulated: Trial | Point) -> tuple[str, ...]:
    row = simulated.row
    numbers = (row.p99_latency, row.mean_latency)
    return (
        "-" if row.goodput is None else f"{row.goodput:.2%}",
        *("-" if each is None else f"{each * 1e3:.2f}" for each in numbers),
        "-" if row.mean_batch_size is None else f"{row.mean_batch_size:.1f}",
        "yes" if simulated.holds else "no",
    )
