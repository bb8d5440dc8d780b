"""`adaptive-batching simulate`: the same traffic through several policies, in virtual time."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from adaptive_batching.cli.endings import interruptible, writing
from adaptive_batching.cli.simulate_options import with_options
from adaptive_batching.core import Limits
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.closed_loop import Span
from adaptive_batching.simulation.conditions import Condition
from adaptive_batching.simulation.curves import Padded
from adaptive_batching.simulation.experiment import Experiment
from adaptive_batching.simulation.limit import Limit, limit_of
from adaptive_batching.simulation.replications import Replicated, replicate, replicated_table
from adaptive_batching.simulation.report import Row, table
from adaptive_batching.simulation.servers import Server
from adaptive_batching.simulation.traffic import (
    Shaping,
    Traffic,
    closed,
    made,
    recorded,
    streamed,
)
from adaptive_batching.units import format_duration

_WIDTH = 150  # a line that the terminal wraps is better than a number cut short


@click.command(no_args_is_help=True, context_settings={"show_default": True})
@click.argument("trace", type=click.Path(path_type=Path), required=False)
@with_options
def command(
    trace: Path | None,
    *,
    policies: tuple[str, ...],
    workers: tuple[int, ...],
    seed: int,
    replications: int,
    with_limit: bool,
    form: str,
    **options: Any,
) -> None:
    """Replay traffic through the scheduler in virtual time and compare policies.

    TRACE is recorded traffic, plain or gzipped: CSV with the header t_seconds,size, a trace of
    Azure (LLM 2023, functions 2021), Mooncake or DISB, an access log, or a time a line.
    """
    contestants = [(policy, each) for each in workers for policy in policies]
    with interruptible():
        show = _simulated(
            partial(_prepare, trace, options),
            contestants,
            seed,
            replications,
            form,
            with_limit=with_limit,
        )
    with writing():
        show()


def _simulated(
    make: Callable[[int], tuple[Traffic, Experiment]],
    contestants: Sequence[tuple[str, int]],
    seed: int,
    replications: int,
    form: str,
    *,
    with_limit: bool,
) -> Callable[[], None]:
    """Do what was asked for, and return what shows it."""
    try:
        traffic, experiment = make(seed)
        if replications > 1:
            _expect_none("with --replications", {"limit": with_limit}, "limit")
            seeds = range(seed, seed + replications)
            many = replicate(partial(_experiment_of, make), contestants, seeds)
            return partial(_show_many, many, traffic, experiment, replications, form)
        rows = [experiment.run(*each) for each in contestants]
        workers = tuple(dict.fromkeys(each for _, each in contestants))
        limit = _limit(experiment, workers, traffic) if with_limit else None
    except (TraceError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    return partial(_show, rows, traffic, experiment, limit, form)


def _prepare(
    trace: Path | None, options: Mapping[str, Any], seed: int
) -> tuple[Traffic, Experiment]:
    rest = dict(options)
    given = {name: rest.pop(name) for name in (*_MADE, *_CLOSED, *_RECORDED)}
    traffic = _made(seed, **given) if trace is None else _recorded(trace, seed, **given)
    return traffic, _experiment(traffic, seed, **rest)


def _experiment_of(make: Callable[[int], tuple[Traffic, Experiment]], seed: int) -> Experiment:
    return make(seed)[1]


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
    max_latency: float,
    max_batch_size: int,
    max_queue: int,
    timer_resolution: float,
    warmup: float,
    **workers: Any,
) -> Experiment:
    return Experiment(
        arrivals=traffic.arrivals,
        server=_server(**workers),
        limits=Limits(max_batch_size, max_latency, max_queue),
        sizes=traffic.sizes,
        timer_resolution=timer_resolution,
        warmup=warmup,
        seed=seed,
    )


def _server(
    *,
    server: Server,
    jitter: float,
    pause: tuple[float, float],
    pad_to: tuple[int, ...] | None,
    drifts: tuple[Condition, ...],
    **others: Condition | None,
) -> Server:
    conditions = (*drifts, *(each for each in others.values() if each is not None))
    curve = server.curve if pad_to is None else Padded(server.mean, pad_to)
    share, length = pause
    return replace(
        server,
        jitter=jitter,
        pause_probability=share,
        pause=length,
        curve=curve,
        conditions=conditions,
    )


def _limit(experiment: Experiment, workers: tuple[int, ...], traffic: Traffic) -> Limit:
    if len(workers) > 1:
        raise click.UsageError(f"expected one --workers with --limit, got {len(workers)}")
    return limit_of(experiment, workers[0], traffic.poisson_rate)


def _show(
    rows: Sequence[Row], traffic: Traffic, experiment: Experiment, limit: Limit | None, form: str
) -> None:
    if form == "json":
        answer: dict[str, Any] = {"trace": traffic.facts, "rows": [asdict(row) for row in rows]}
        if limit is not None:
            answer["limit"] = asdict(limit)
        click.echo(json.dumps(answer, indent=2, allow_nan=False))
        return
    title = f"{_title(traffic, experiment)}, seed {experiment.seed}"
    if limit is None:
        _print(table(rows, title))
    else:
        _print(table(rows, f"{title}\n{limit}", limit.goodput))


def _show_many(
    rows: Sequence[Replicated],
    traffic: Traffic,
    experiment: Experiment,
    replications: int,
    form: str,
) -> None:
    if form == "json":
        facts = {"trace": traffic.facts, "replications": replications}
        answer = {**facts, "rows": [asdict(row) for row in rows]}
        click.echo(json.dumps(answer, indent=2, allow_nan=False))
        return
    first = rows[0].policy
    seeds = f"{replications} seeds from {experiment.seed}, ± 95 % confidence"
    _print(
        replicated_table(rows, f"{_title(traffic, experiment)}\n{seeds}, change against {first}")
    )


def _title(traffic: Traffic, experiment: Experiment) -> str:
    promise = experiment.limits.max_latency
    within = "no max_latency" if promise == inf else f"within {format_duration(promise)}"
    rate = traffic.facts["rate"]
    known = () if rate is None else (f"{rate:,.0f} requests/s",)
    shaped = (
        f"{name.replace('_', ' ')} {factor:g}"
        for name, factor in asdict(traffic.shaping).items()
        if factor != 1
    )
    return ", ".join((str(traffic), *known, *shaped, within))


def _print(drawn: Table) -> None:
    console = Console()
    console.width = max(console.width, _WIDTH)
    console.print(drawn)
