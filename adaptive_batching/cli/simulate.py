"""`adaptive-batching simulate`: the same traffic through several policies, in virtual time."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from math import inf, isfinite
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from adaptive_batching.core import Limits, make_policy
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.arrivals import GENERATORS
from adaptive_batching.simulation.closed_loop import Span, parse_span
from adaptive_batching.simulation.experiment import Experiment
from adaptive_batching.simulation.limit import Limit, limit_of
from adaptive_batching.simulation.report import Row, table
from adaptive_batching.simulation.servers import Server, parse_latency, parse_pause
from adaptive_batching.simulation.traces import FORMATS
from adaptive_batching.simulation.traffic import (
    Shaping,
    Traffic,
    closed,
    made,
    recorded,
    streamed,
)
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


_WIDTH = 132  # a line that the terminal wraps is better than a number cut short
_DURATION = _Parsed("duration", parse_duration)
_SECONDS = _Parsed("seconds", _seconds)
_SPAN = _Parsed("duration or range", parse_span)


@click.command(no_args_is_help=True)
@click.argument("trace", type=click.Path(path_type=Path), required=False)
@click.option(
    "--arrivals",
    type=click.Choice([*sorted(GENERATORS), "closed"]),
    help="Make traffic instead; closed: users who send again when they are answered.",
)
@click.option("--rate", type=float, help="Of made traffic: requests a second.")
@click.option("--duration", type=_SECONDS, help="Of made traffic: seconds.")
@click.option("--users", type=int, help="Of closed traffic: how many.")
@click.option("--think", type=_SPAN, help="Of closed traffic, say 20ms or 5ms-50ms.  [default: 0s]")
@click.option(
    "--turnaround",
    type=_SPAN,
    help="Of closed traffic: network and client, there and back.  [default: 0.3ms-2.3ms]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of traffic and workers.")
@click.option("--superpose", type=int, help="Lay so many shifted copies of the trace together.")
@click.option("--rate-scale", type=float, help="Times the requests of the trace, same clock.")
@click.option("--speedup", type=float, help="Divide the times of the trace by this.")
@click.option(
    "--trace-format",
    type=click.Choice(list(FORMATS)),
    help="Of the trace; by default its content tells.",
)
@click.option(
    "--sizes",
    type=click.Choice(["ignore", "items", "tokens", "cost"]),
    default="ignore",
    show_default=True,
    help="What the trace's sizes are, and so what --latency, --max-batch-size and --max-queue "
    "count: `ignore` counts each request as one item; `items`, `tokens` (of the prompt) and `cost` "
    "(all tokens, milliseconds, bytes) take what the format recorded.",
)
@click.option("--stream", is_flag=True, help="Keep neither trace nor records: any length fits.")
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
    policies: tuple[str, ...],
    workers: tuple[int, ...],
    seed: int,
    with_limit: bool,
    form: str,
    **options: Any,
) -> None:
    """Replay traffic through the scheduler in virtual time and compare policies.

    TRACE is recorded traffic, plain or gzipped: CSV with the header t_seconds,size, a trace of
    Azure (LLM 2023, functions 2021), Mooncake or DISB, an access log, or a time a line.
    """
    given = {name: options.pop(name) for name in (*_MADE, *_CLOSED, *_RECORDED)}
    try:
        traffic = _made(seed, **given) if trace is None else _recorded(trace, seed, **given)
        experiment = _experiment(traffic, seed, **options)
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
        _print(rows, _title(traffic, experiment), limit)


_MADE = ("arrivals", "rate", "duration")
_CLOSED = ("users", "think", "turnaround")
_RECORDED = ("superpose", "rate_scale", "speedup", "trace_format", "sizes", "stream")
_NO_THINKING = Span(0.0, 0.0)
_TURNAROUND = Span(0.3e-3, 2.3e-3)  # a client on the same network


def _expect_none(where: str, given: Mapping[str, object], *names: str) -> None:
    for name in names:
        if given[name] not in {None, False, "ignore"}:
            option = name.replace("_", "-")
            raise click.UsageError(f"expected no --{option} {where}, got {given[name]}")


def _recorded(trace: Path, seed: int, **given: Any) -> Traffic:
    _expect_none("with a TRACE", given, *_MADE, *_CLOSED)
    measure = None if given["sizes"] == "ignore" else given["sizes"]
    reading = {"form": given["trace_format"], "measure": measure, "with_sizes": measure is not None}
    factors = {name: given[name] for name in _SHAPED if given[name] is not None}
    if given["stream"]:
        _expect_none("with --stream", given, "superpose", "rate_scale")
        return streamed(trace, factors.get("speedup", 1.0), **reading)
    return recorded(trace, Shaping(**factors), seed=seed, **reading)


_SHAPED = ("superpose", "rate_scale", "speedup")


def _made(seed: int, **given: Any) -> Traffic:
    _expect_none("without a TRACE", given, *_RECORDED)
    kind = given["arrivals"]
    if kind is None:
        raise click.UsageError("expected a TRACE or --arrivals, got neither")
    if kind == "closed":
        _expect_none("with --arrivals closed", given, "rate")
        _expect("closed", given, "users", "duration")
        think, turnaround = given["think"] or _NO_THINKING, given["turnaround"] or _TURNAROUND
        return closed(given["users"], given["duration"], think, turnaround, seed)
    _expect_none(f"with --arrivals {kind}", given, *_CLOSED)
    _expect(kind, given, "rate", "duration")
    return made(kind, rate=given["rate"], duration=given["duration"], seed=seed)


def _expect(kind: str, given: Mapping[str, object], *names: str) -> None:
    for name in names:
        if given[name] is None:
            both = " and ".join(f"--{each}" for each in names)
            raise click.UsageError(f"expected {both} with --arrivals {kind}, got no --{name}")


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
        arrivals=traffic.arrivals,
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
    return f"{traffic}, {within}"


def _print(rows: Sequence[Row], title: str, limit: Limit | None) -> None:
    console = Console()
    console.width = max(console.width, _WIDTH)
    if limit is None:
        console.print(table(rows, title))
    else:
        console.print(table(rows, f"{title}\n{limit}", limit.goodput))
