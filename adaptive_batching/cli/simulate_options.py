"""The options of `adaptive-batching simulate`, and how their values are spelt."""

import sys
from collections.abc import Callable
from math import inf, isfinite
from pathlib import Path
from typing import Any, TypeVar

import click

from adaptive_batching.core import make_policy
from adaptive_batching.core.policies import KNOWN
from adaptive_batching.simulation.arrivals import GENERATORS
from adaptive_batching.simulation.closed_loop import parse_span
from adaptive_batching.simulation.conditions import (
    parse_cold_start,
    parse_drift,
    parse_failures,
    parse_shared,
)
from adaptive_batching.simulation.curves import parse_buckets
from adaptive_batching.simulation.servers import parse_pause, parse_server
from adaptive_batching.simulation.traces import FORMATS
from adaptive_batching.units import parse_duration

F = TypeVar("F", bound=Callable[..., Any])


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
    """Check it; the user's own are looked for in the current directory first."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
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


_DURATION = _Parsed("duration", parse_duration)
_SECONDS = _Parsed("seconds", _seconds)
_SPAN = _Parsed("duration or range", parse_span)


_OPTIONS = (
    click.option(
        "--arrivals",
        type=click.Choice([*sorted(GENERATORS), "closed"]),
        help="Make traffic instead; closed: users who send again when they are answered.",
    ),
    click.option("--rate", type=float, help="Of made traffic: requests a second."),
    click.option("--duration", type=_SECONDS, help="Of made traffic: seconds."),
    click.option("--users", type=int, help="Of closed traffic: how many."),
    click.option(
        "--think", type=_SPAN, help="Of closed traffic, say 20ms or 5ms-50ms.  [default: 0s]"
    ),
    click.option(
        "--turnaround",
        type=_SPAN,
        help="Of closed traffic: network and client, there and back.  [default: 0.3ms-2.3ms]",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, help="Of traffic and workers."),
    click.option("--superpose", type=int, help="Lay so many shifted copies of the trace together."),
    click.option("--rate-scale", type=float, help="Times the requests of the trace, same clock."),
    click.option("--speedup", type=float, help="Divide the times of the trace by this."),
    click.option(
        "--trace-format",
        type=click.Choice(list(FORMATS)),
        help="Of the trace; by default its content tells.",
    ),
    click.option(
        "--sizes",
        type=click.Choice(["ignore", "items", "tokens", "cost"]),
        default="ignore",
        help="What the trace's sizes are, and so what --latency, --max-batch-size and --max-queue "
        "count: `ignore` counts each request as one item; `items`, `tokens` (of the prompt) and "
        "`cost` (all tokens, milliseconds, bytes) take what the format recorded.",
    ),
    click.option("--stream", is_flag=True, help="Keep neither trace nor records: any length fits."),
    click.option(
        "--policy",
        "policies",
        type=_Parsed("policy", _policy_name),
        multiple=True,
        default=("cork", "greedy"),
        help=f"{', '.join(KNOWN)}; repeat to compare.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        multiple=True,
        default=(1,),
        help="Batches that may run at the same time; repeat to compare.",
    ),
    click.option(
        "--latency",
        "server",
        type=_Parsed("fixed+per_item or table", parse_server),
        default="5ms+0.05ms",
        help="How long a batch takes: fixed, and for each item; or measured, 1:5ms,8:5.5ms,64:8ms.",
    ),
    click.option(
        "--pad-to",
        type=_Parsed("sizes", parse_buckets),
        help="Batches are padded to the next of these sizes, say 8,16,64, or pow2.",
    ),
    click.option(
        "--drift",
        "drifts",
        type=_Parsed("factor@time", parse_drift),
        multiple=True,
        help="Batches take 2x@6s from then on, or 2x@6s-20s little by little; may be repeated.",
    ),
    click.option(
        "--cold-start",
        type=_Parsed("batches:duration", parse_cold_start),
        help="The first batches take longer, say 5:200ms.",
    ),
    click.option("--failures", type=_Parsed("percent", parse_failures), help="Batches that fail."),
    click.option(
        "--shared-device",
        type=_Parsed("percent", parse_shared),
        help="A batch takes so much longer for each that runs when it begins, say 30%.",
    ),
    click.option(
        "--jitter", type=float, default=0.0, help="Sigma of lognormal noise on it, say 0.1."
    ),
    click.option(
        "--pause",
        type=_Parsed("percent:duration", parse_pause),
        default="0%:0ms",
        help="Pauses of the machine: share of the batches and length, say 0.5%:10ms.",
    ),
    click.option(
        "--max-latency",
        type=_DURATION,
        default=inf,
        show_default="none",
        help="From arrival to answer.",
    ),
    click.option("--max-batch-size", type=int, default=64, help="Items."),
    click.option("--max-queue", type=int, default=65_536, help="Items waiting."),
    click.option(
        "--timer-resolution", type=_DURATION, default=0.0, help="Round wake-ups up to this."
    ),
    click.option(
        "--warmup", type=_SECONDS, default=0.0, help="Seconds left out of the statistics."
    ),
    click.option(
        "--replications",
        type=click.IntRange(min=1),
        default=1,
        help="Seeds, one after the other, with 95 % confidence intervals; policies are compared "
        "seed by seed with the first.",
    ),
    click.option(
        "--limit",
        "with_limit",
        is_flag=True,
        help="Say how good who knows all arrivals could have been; for one number of workers.",
    ),
    click.option("--format", "form", type=click.Choice(["table", "json"]), default="table"),
)


def with_options(command: F) -> F:
    """Give a command all of them, in that order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
