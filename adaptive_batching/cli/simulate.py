"""`adaptive-batching simulate`: the same traffic through several policies, in virtual time."""

import json
from collections.abc import Callable
from dataclasses import asdict
from math import inf, isfinite
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from adaptive_batching.core import Limits, make_policy
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.arrivals import GENERATORS
from adaptive_batching.simulation.experiment import Experiment
from adaptive_batching.simulation.limit import Limit, limit_of
from adaptive_batching.simulation.report import table
from adaptive_batching.simulation.servers import Server, parse_latency, parse_pause
from adaptive_batching.simulation.traffic import Traffic, made, recorded
from adaptive_batching.units import format_duration, parse_duration


class _Parsed(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """A type whose parser says by itself what it expected and what it got."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value  # a default
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _policy_name(text: str) -> str:
    make_policy(text)
    return text


def _seconds(text: str) -> float:
    """Read `20` or `20s`."""
    try:
        seconds = float(text)
    except ValueError:
        return parse_duration(text)
    if not (isfinite(seconds) and seconds >= 0):
        raise ValueError(f"expected 0 seconds or more, got {text!r}")
    return seconds


_WIDTH = 124  # a line that the terminal wraps is better than a number cut short
_DURATION = _Parsed("duration", parse_duration)
_SECONDS = _Parsed("seconds", _seconds)


@click.command(no_args_is_help=True)
@click.argument("trace", type=click.Path(path_type=Path), required=False)
@click.option("--arrivals", type=click.Choice(sorted(GENERATORS)), help="Make traffic instead.")
@click.option("--rate", type=float, help="Of made traffic: requests a second.")
@click.option("--duration", type=_SECONDS, help="Of made traffic: seconds.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of traffic and workers.")
@click.option("--speedup", "factor", type=float, help="Divide the times of the trace by this.")
@click.option(
    "--sizes",
    type=click.Choice(["ignore", "items"]),
    default="ignore",
    show_default=True,
    help="What the trace's sizes are: `ignore` counts each request as one item, because sizes "
    "mostly are tokens and --max-batch-size counts items; `items` takes them as items.",
)
@click.option(
    "--policy",
    "policies",
    type=_Parsed("policy", _policy_name),
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
    "--latency",
    type=_Parsed("fixed+per_item", parse_latency),
    default="5ms+0.05ms",
    show_default=True,
    help="How long a batch takes: fixed, and for each item.",
)
@click.option("--jitter", type=float, default=0.0, help="Sigma of lognormal noise on it, say 0.1.")
@click.option(
    "--pause",
    type=_Parsed("percent:duration", parse_pause),
    default="0%:0ms",
    help="Pauses of the machine: share of the batches and length, say 0.5%:10ms.",
)
@click.option("--max-latency", type=_DURATION, default=inf, help="From arrival to answer.")
@click.option("--max-batch-size", type=int, default=64, show_default=True, help="Items.")
@click.option("--max-queue", type=int, default=65_536, show_default=True, help="Items waiting.")
@click.option("--timer-resolution", type=_DURATION, default=0.0, help="Round wake-ups up to this.")
@click.option("--warmup", type=_SECONDS, default=0.0, help="Seconds left out of the statistics.")
@click.option(
    "--limit",
    "with_limit",
    is_flag=True,
    help="Say how good anyone could have been who knows all arrivals; for one number of workers.",
)
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
def command(
    trace: Path | None,
    *,
    arrivals: str | None,
    rate: float | None,
    duration: float | None,
    factor: float | None,
    sizes: str,
    policies: tuple[str, ...],
    workers: tuple[int, ...],
    seed: int,
    with_limit: bool,
    form: str,
    **conditions: Any,
) -> None:
    """Replay traffic through the scheduler in virtual time and compare policies.

    TRACE is a CSV file, plain or gzipped, with the header t_seconds,size.
    """
    try:
        if trace is not None:
            _expect_none("with a TRACE", arrivals=arrivals, rate=rate, duration=duration)
            times = 1.0 if factor is None else factor
            traffic = recorded(trace, factor=times, with_sizes=sizes == "items")
        else:
            _expect_none("without a TRACE", speedup=factor)
            traffic = _made(arrivals, rate, duration, seed)
        experiment = _experiment(traffic, seed, **conditions)
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
        console = Console()
        console.width = max(console.width, _WIDTH)
        title = _title(traffic, experiment)
        if limit is None:
            console.print(table(rows, title))
        else:
            console.print(table(rows, f"{title}\n{limit}", limit.goodput))


def _expect_none(where: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise click.UsageError(f"expected no --{name} {where}, got {value}")


def _made(arrivals: str | None, rate: float | None, duration: float | None, seed: int) -> Traffic:
    if arrivals is None:
        raise click.UsageError("expected a TRACE or --arrivals, got neither")
    if rate is None or duration is None:
        missing = "--rate" if rate is None else "--duration"
        raise click.UsageError(f"expected --rate and --duration with --arrivals, got no {missing}")
    return made(arrivals, rate=rate, duration=duration, seed=seed)


def _experiment(
    traffic: Traffic,
    seed: int,
    *,
    latency: tuple[float, float],
    jitter: float,
    pause: tuple[float, float],
    max_latency: float,
    max_batch_size: int,
    max_queue: int,
    timer_resolution: float,
    warmup: float,
) -> Experiment:
    return Experiment(
        arrivals=traffic.times,
        server=Server(*latency, jitter, *pause),
        limits=Limits(max_batch_size, max_latency, max_queue),
        sizes=traffic.sizes,
        timer_resolution=timer_resolution,
        warmup=warmup,
        seed=seed,
    )


def _limit(experiment: Experiment, workers: tuple[int, ...], traffic: Traffic) -> Limit:
    if len(workers) > 1:
        raise click.UsageError(f"expected one --workers with --limit, got {len(workers)}")
    return limit_of(experiment, workers[0], traffic.poisson_rate)


def _title(traffic: Traffic, experiment: Experiment) -> str:
    promise = experiment.limits.max_latency
    within = "no max_latency" if promise == inf else f"within {format_duration(promise)}"
    requests = f"{len(traffic.times):,} requests in {format_duration(traffic.duration)}"
    return f"{traffic.source}: {requests}, {within}"
