"""`adaptive-batching replay`: the same traffic to a running service and in virtual time."""

import asyncio
import json
import logging
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from adaptive_batching.cli.endings import policy_errors_told, writing
from adaptive_batching.cli.options.parameters import (
    DURATION,
    FORMAT,
    ITEMS,
    POLICY,
    SECONDS,
    WORKERS,
    Parsed,
    expect_shorter,
)
from adaptive_batching.cli.options.sections import options_in
from adaptive_batching.cli.options.traffic import TraceFile, is_recorded
from adaptive_batching.core import Limits
from adaptive_batching.errors import BatchingError, TraceError
from adaptive_batching.load.processes import LoadError
from adaptive_batching.replay import Conditions, compare
from adaptive_batching.replay.report import as_json, as_text
from adaptive_batching.simulation.servers.servers import parse_latency
from adaptive_batching.simulation.study.traffic import Shaping, Traffic, recorded
from adaptive_batching.simulation.traffic.arrivals import Times
from adaptive_batching.simulation.traffic.traces import FORMATS
from adaptive_batching.units import counted

_option = options_in("Options")


@click.command(no_args_is_help=True)
@click.argument("trace", type=TraceFile(path_type=Path))
@_option("--live", is_flag=True, help="Send real requests; `simulate` is for the rest.")
@_option("--speedup", type=float, default=1.0, help="Divisor of the trace's times.")
@_option("--duration", type=SECONDS, default=60.0, help="Longest time to send requests.")
@_option(
    "--trace-format",
    type=click.Choice(list(FORMATS)),
    help="Format of the trace, if its content does not tell.",
)
@_option("--policy", type=POLICY, default="cork", show_default=True)
@_option("--workers", type=WORKERS, default=1, show_default=True)
@_option(
    "--latency",
    type=Parsed("fixed+per_item", parse_latency),
    default="5ms+0.05ms",
    show_default=True,
    help="Time that the model sleeps for a batch: fixed and per item.",
)
@_option("--max-latency", type=DURATION, default=inf, help="Longest time from arrival to answer.")
@_option(
    "--max-batch-size",
    type=ITEMS,
    default=64,
    show_default=True,
    help="Requests in a batch at most.",
)
@_option("--max-queue", type=ITEMS, default=1024, show_default=True, help="Requests that may wait.")
@_option(
    "--timer-resolution",
    type=DURATION,
    help="Interval of the simulation's timers; measured by default.",
)
@_option(
    "--warmup",
    type=SECONDS,
    default=1.0,
    help="Time at the beginning that is left out of the statistics.",
)
@_option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the simulated workers.")
@_option(
    "--apart",
    is_flag=True,
    help="Measure the machine's own delays on other traffic, before and after, instead of on this.",
)
@FORMAT
def command(
    trace: Path,
    *,
    live: bool,
    speedup: float,
    duration: float,
    trace_format: str | None,
    form: str,
    timer_resolution: float | None,
    warmup: float,
    seed: int,
    apart: bool,
    **conditions: Any,
) -> None:
    """Send a trace to a running service, simulate the same, and compare both.

    The service runs on this machine, with a model that sleeps in worker processes. A separate
    process sends the requests at the instants of TRACE, without waiting for answers. Each request
    is one item: the items and costs of a recording are left out. The simulation uses this machine's
    measured delays: how long batches occupied workers, and how long answers took besides. It does
    not use the measured waiting times.
    """
    if not live:
        raise click.UsageError("expected --live: without it, `simulate` replays a trace")
    # What is refused under overload stands in the table.
    logging.getLogger("adaptive_batching").setLevel(logging.ERROR)
    try:
        traffic = _of_single_items(trace, speedup, trace_format)
        instants = _first(traffic, duration)
        expect_shorter("warmup", warmup, float(instants[-1]))
        comparing = partial(
            compare,
            _conditions(**conditions),
            instants,
            timer_resolution=timer_resolution,
            warmup=warmup,
            seed=seed,
            apart=apart,
        )
        with policy_errors_told():
            comparison = asyncio.run(comparing())
    except (TraceError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    except (LoadError, BatchingError) as error:
        raise click.ClickException(str(error)) from error
    with writing():
        if form == "json":
            answer = {"trace": {**traffic.facts, "sent": len(instants)}, **as_json(comparison)}
            click.echo(json.dumps(answer, indent=2, allow_nan=False))
        else:
            Console().print(
                as_text(comparison, f"{counted(len(instants), 'request')} of {traffic}")
            )


def _of_single_items(trace: Path, speedup: float, trace_format: str | None) -> Traffic:
    """The requests of a trace; a warning says what they bring that the model does not take."""
    in_items = is_recorded(trace, trace_format)
    traffic = recorded(trace, Shaping(speedup=speedup), form=trace_format, with_sizes=in_items)
    brought = {"items": traffic.sizes, "costs": traffic.costs}
    if left_out := [name for name, values in brought.items() if values is not None]:
        told = "each request is one item, and the model sleeps by the number of these"
        click.echo(f"Warning: {' and '.join(left_out)} of {trace} are left out: {told}", err=True)
    return replace(traffic, sizes=None, costs=None, costed=None)


def _first(traffic: Traffic, seconds: float) -> Times:
    arrivals = traffic.arrivals
    assert isinstance(arrivals, np.ndarray)
    first = arrivals[arrivals <= seconds]
    if not len(first):
        raise ValueError(f"expected a duration with a request in it, got {seconds:g} s")
    return first


def _conditions(
    *,
    latency: tuple[float, float],
    max_latency: float,
    max_batch_size: int,
    max_queue: int,
    policy: str,
    workers: int,
) -> Conditions:
    limits = Limits(max_batch_size, max_latency, max_queue)
    return Conditions(*latency, limits, policy, workers)
