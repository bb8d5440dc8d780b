"""`adaptive-batching compare`: fails a build if the second policy is worse than the first."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from adaptive_batching.cli.endings import policy_errors_told, writing
from adaptive_batching.cli.heading import title
from adaptive_batching.cli.options.conditions import (
    condition_options,
    conditions,
    experiment_of,
)
from adaptive_batching.cli.options.parameters import (
    FORMAT,
    POLICY,
    REPLICATIONS,
    SHARE,
    WORKERS,
)
from adaptive_batching.cli.options.sections import SectionedCommand, options_in
from adaptive_batching.cli.options.workers import expect_worker, number_of_workers
from adaptive_batching.cli.progress import progress
from adaptive_batching.cli.screen import screen
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.study.comparison import (
    Change,
    Comparison,
    Pair,
    Tolerance,
    compared,
)
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.replications import replicated_table, summed
from adaptive_batching.simulation.study.seeds import Contestant, each_seed

_compared = options_in("Comparison")


@click.command(
    "compare", no_args_is_help=True, context_settings={"show_default": True}, cls=SectionedCommand
)
@condition_options
@_compared(
    "--policy",
    "policies",
    type=POLICY,
    multiple=True,
    required=True,
    help="Policy; give the one in use first, then the one that may replace it.",
)
@_compared("--workers", type=WORKERS, default=1)
@_compared(
    "--replications",
    type=REPLICATIONS,
    default=5,
    help="Runs, with the seeds that follow --seed; both policies get the same seeds.",
)
@_compared(
    "--max-goodput-loss",
    type=SHARE,
    default="0.5%",
    help="Share of all requests that the second policy may lose.",
)
@_compared(
    "--max-throughput-loss",
    type=SHARE,
    help="Share of the first policy's answers a second that the second may lose. Without closed "
    "traffic these follow the arrivals, and goodput says more.  [default: 1% with --arrivals "
    "closed, else any]",
)
@_compared(
    "--max-mean-increase",
    type=SHARE,
    default="5%",
    help="Share of the first policy's mean latency by which the second's may be longer.",
)
@_compared(
    "--max-p99-increase",
    type=SHARE,
    default="5%",
    help="Share of the first policy's p99 by which the second's may be longer.",
)
@FORMAT
def command(
    trace: Path | None,
    *,
    policies: tuple[str, ...],
    workers: int,
    replications: int,
    max_goodput_loss: float,
    max_throughput_loss: float | None,
    max_mean_increase: float,
    max_p99_increase: float,
    seed: int,
    form: str,
    **options: Any,
) -> None:
    """Compare two policies on TRACE and exit with status 1 if the second is worse.

    In each run both policies get the same arrivals and the same durations. The means over the runs
    are compared with the limits. The status is also 1 if neither policy answers any request in
    time.
    """
    if len(policies) != 2:
        raise click.UsageError(f"expected --policy twice, got {len(policies)}")
    workers = number_of_workers(options["servers"], workers)
    expect_worker(options["drifts"], workers)
    if max_throughput_loss is None and options["arrivals"] == "closed":
        max_throughput_loss = _CLOSED_LOSS
    limits = Tolerance(max_goodput_loss, max_throughput_loss, max_mean_increase, max_p99_increase)
    contestants = [(policy, workers) for policy in policies]
    try:
        with policy_errors_told():
            traffic, experiment = conditions(trace, options, seed)
            pairs = _pairs(partial(experiment_of, trace, options), contestants, seed, replications)
    except (TraceError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    comparison = compared(pairs, limits)
    with writing():
        if form == "json":
            facts = {"loop_delay": experiment.loop_delay, **asdict(comparison)}
            answer = {**facts, "runs": [[asdict(row) for row in pair] for pair in pairs]}
            click.echo(json.dumps(answer, indent=2, allow_nan=False))
        else:
            seeds = f"seed {seed}" if replications == 1 else f"{replications} seeds from {seed}"
            _print(comparison, limits, pairs, f"{title(traffic, experiment)}\n{seeds}")
    if comparison.faults:
        raise click.exceptions.Exit(1)


_CLOSED_LOSS = 0.01


def _pairs(
    make: Callable[[int], Experiment],
    contestants: Sequence[Contestant],
    seed: int,
    replications: int,
) -> list[Pair]:
    seeds = range(seed, seed + replications)
    with progress("replications", replications) as done:
        return [(old, new) for old, new in each_seed(make, contestants, seeds, done=done)]


def _print(comparison: Comparison, limits: Tolerance, pairs: Sequence[Pair], heading: str) -> None:
    console = screen()
    both = [summed(rows, rows) for rows in zip(*pairs, strict=True)]
    sure = ", ± 95 % confidence" if len(pairs) > 1 else ""
    console.print(replicated_table(both, heading + sure))
    for what, name, style in _CRITERIA:
        change, limit = getattr(comparison, name), getattr(limits, name)
        if change is not None:
            allowed = "any" if limit is None else f"up to {limit:{style}}"
            console.print(f"{what} {_interval(change, style)}, allowed {allowed}")
    for fault in comparison.faults:
        console.print(f"Fails: {fault}")
    if not comparison.faults:
        console.print("Good enough.")


_CRITERIA = (
    ("goodput lost   ", "goodput_loss", ".2%"),
    ("answers/s lost ", "throughput_loss", ".1%"),
    ("mean longer    ", "mean_increase", ".1%"),
    ("p99 longer     ", "p99_increase", ".1%"),
)


def _interval(change: Change, style: str) -> str:
    low, high = format(change.low, "+" + style), format(change.high, "+" + style)
    return f"{format(change.mean, '+' + style)} (95 of 100: {low} to {high})"
