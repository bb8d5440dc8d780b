"""`adaptive-batching simulate`: the same traffic through several policies, in virtual time."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from adaptive_batching.cli.conditions import condition_options, conditions, title
from adaptive_batching.cli.parameters import FORMAT, POLICY, WIDTH
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.experiment import Experiment
from adaptive_batching.simulation.limit import Limit, limit_of
from adaptive_batching.simulation.report import Row, table
from adaptive_batching.simulation.traffic import Traffic


@click.command(no_args_is_help=True)
@condition_options
@click.option(
    "--policy",
    "policies",
    type=POLICY,
    multiple=True,
    default=("cork", "greedy"),
    show_default=True,
    help="cork, greedy, window:TIMEOUT or aimd[:STEP]; repeat to compare.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    multiple=True,
    default=(1,),
    show_default=True,
    help="Batches that may run at the same time; repeat to compare.",
)
@click.option(
    "--limit",
    "with_limit",
    is_flag=True,
    help="Say how good anyone could have been who knows all arrivals; for one number of workers.",
)
@FORMAT
def command(
    trace: Path | None,
    *,
    policies: tuple[str, ...],
    workers: tuple[int, ...],
    seed: int,
    with_limit: bool,
    form: str,
    **options: Any,
) -> None:
    """Replay traffic through the scheduler in virtual time and compare policies.

    TRACE is recorded traffic, plain or gzipped: what `serve --record` wrote, CSV with the header
    t_seconds,size, a trace of Azure (LLM 2023, functions 2021), Mooncake or DISB, an access log, or
    a time a line.
    """
    try:
        traffic, experiment = conditions(trace, seed, options)
        rows = [experiment.run(policy, each) for each in workers for policy in policies]
        limit = _limit(experiment, workers, traffic) if with_limit else None
    except (TraceError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    if form == "json":
        answer: dict[str, Any] = {"trace": traffic.facts, "rows": [asdict(row) for row in rows]}
        if limit is not None:
            answer["limit"] = asdict(limit)
        click.echo(json.dumps(answer, indent=2, allow_nan=False))
    else:
        _print(rows, title(traffic, experiment), limit)


def _limit(experiment: Experiment, workers: tuple[int, ...], traffic: Traffic) -> Limit:
    if len(workers) > 1:
        raise click.UsageError(f"expected one --workers with --limit, got {len(workers)}")
    return limit_of(experiment, workers[0], traffic.poisson_rate)


def _print(rows: Sequence[Row], heading: str, limit: Limit | None) -> None:
    console = Console()
    console.width = max(console.width, WIDTH)
    if limit is None:
        console.print(table(rows, heading))
    else:
        console.print(table(rows, f"{heading}\n{limit}", limit.goodput))
