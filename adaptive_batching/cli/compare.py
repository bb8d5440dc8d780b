"""`adaptive-batching compare`: fails a build if the second policy is worse than the first."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from adaptive_batching.cli.conditions import condition_options, conditions, title
from adaptive_batching.cli.endings import interruptible, writing
from adaptive_batching.cli.parameters import FORMAT, POLICY, SHARE, WIDTH, expect_shorter
from adaptive_batching.cli.progress import progress
from adaptive_batching.cli.worker_options import expect_worker, number_of_workers
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.comparison import Change, Comparison, compared
from adaptive_batching.simulation.report import Row, table


@click.command("compare", no_args_is_help=True, context_settings={"show_default": True})
@condition_options
@click.option(
    "--policy",
    "policies",
    type=POLICY,
    multiple=True,
    required=True,
    help="Twice: the one that is used, then the one that may replace it.",
)
@click.option("--workers", type=click.IntRange(min=1), default=1)
@click.option(
    "--replications",
    type=click.IntRange(min=1),
    default=5,
    help="Runs with the seeds that follow --seed: other luck, the same for both policies.",
)
@click.option(
    "--max-goodput-loss",
    type=SHARE,
    default="0.5%",
    help="What the second may lose, of all requests.",
)
@click.option(
    "--max-p99-increase",
    type=SHARE,
    default="5%",
    help="How much longer its p99 may be, of the first's.",
)
@FORMAT
def command(
    trace: Path | None,
    *,
    policies: tuple[str, ...],
    workers: int,
    replications: int,
    max_goodput_loss: float,
    max_p99_increase: float,
    seed: int,
    form: str,
    **options: Any,
) -> None:
    """Compare two policies on TRACE and exit with status 1 if the second is worse.

    Both meet the same arrivals and the same durations in each run; the means over the runs are held
    against the limits.
    """
    if len(policies) != 2:
        raise click.UsageError(f"expected --policy twice, got {len(policies)}")
    workers = number_of_workers(options["servers"], workers)
    expect_worker(options["drifts"], workers)
    try:
        with interruptible():
            with progress("replications", replications) as done:
                pairs = [
                    _pair(trace, seed + offset, options, policies, workers, done)
                    for offset in range(replications)
                ]
            heading = f"{title(*conditions(trace, seed, options))}, seed {seed}"
    except (TraceError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    comparison = compared(
        pairs, max_goodput_loss=max_goodput_loss, max_p99_increase=max_p99_increase
    )
    with writing():
        if form == "json":
            runs = [[asdict(row) for row in pair] for pair in pairs]
            click.echo(json.dumps({**asdict(comparison), "runs": runs}, indent=2, allow_nan=False))
        else:
            _print(comparison, pairs, heading)
    if comparison.faults:
        raise click.exceptions.Exit(1)


def _pair(
    trace: Path | None,
    seed: int,
    options: Mapping[str, Any],
    policies: tuple[str, ...],
    workers: int,
    done: Callable[[], None],
) -> tuple[Row, Row]:
    traffic, experiment = conditions(trace, seed, options)
    expect_shorter("warmup", experiment.warmup, traffic.duration)
    old, new = (experiment.run(policy, workers) for policy in policies)
    done()
    return old, new


def _print(comparison: Comparison, pairs: list[tuple[Row, Row]], heading: str) -> None:
    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    runs = "" if len(pairs) == 1 else f"; the first of {len(pairs)} runs"
    console.print(table(pairs[0], heading + runs))
    console.print(f"goodput lost  {_interval(comparison.goodput_loss, '.2%')}")
    if comparison.p99_increase is not None:
        console.print(f"p99 longer    {_interval(comparison.p99_increase, '.1%')}")
    for fault in comparison.faults:
        console.print(f"Worse: {fault}")
    if not comparison.faults:
        console.print("Good enough.")


def _interval(change: Change, style: str) -> str:
    low, high = format(change.low, "+" + style), format(change.high, "+" + style)
    return f"{format(change.mean, '+' + style)} (95 of 100: {low} to {high})"
