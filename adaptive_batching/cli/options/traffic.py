"""The options that say which traffic is simulated: recorded, made or closed."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any, cast

import click

from adaptive_batching.cli.options.parameters import SECONDS, SHARE, Parsed, expect_none
from adaptive_batching.cli.options.sections import COSTS, KEYS_AND_TENANTS, options_in
from adaptive_batching.simulation.clients.closed_loop import Span, parse_span
from adaptive_batching.simulation.clients.keys import Lots, parse_keys
from adaptive_batching.simulation.clients.tenants import parse_tenants
from adaptive_batching.simulation.study.traffic import (
    Shaping,
    Traffic,
    closed,
    made,
    recorded,
    streamed,
)
from adaptive_batching.simulation.traffic.arrivals import GENERATORS
from adaptive_batching.simulation.traffic.costs import DrawnCosts, parse_costs
from adaptive_batching.simulation.traffic.traces import FORMATS, Measure, is_recording


class TraceFile(click.Path):
    """A file that can be read more than once: a pipe is copied to a temporary one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read what was typed, and all of a pipe."""
        path = cast("Path", super().convert(value, param, ctx))
        if ctx is None or not path.is_fifo():
            return path
        folder = TemporaryDirectory(prefix="adaptive-batching-")
        ctx.call_on_close(folder.cleanup)
        kept = Path(folder.name) / path.name
        try:
            with path.open("rb") as pipe, kept.open("wb") as file:
                copyfileobj(pipe, file)
        except OSError as error:
            raise click.ClickException(f"can't copy {path} to {kept}: {error.strerror}") from error
        return kept


class _Unit(click.Choice):  # type: ignore[type-arg]  # generic in newer clicks only
    """What sizes count, which are not the sizes of batches."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read what was typed."""
        if value not in self.choices:
            *most, last = self.choices
            msg = f"expected {', '.join(most)} or {last}, got {value!r}"
            if str(value)[:1].isdecimal():
                msg += f"; the sizes that a model runs are --pad-to {value}"
            self.fail(msg, param, ctx)
        return value


_SPAN = Parsed("duration or range", parse_span)

_made = options_in("Made traffic")
_recording = options_in("Recorded traffic")
_kinds = options_in(KEYS_AND_TENANTS)

TRAFFIC_OPTIONS = (
    click.argument("trace", type=TraceFile(path_type=Path), required=False),
    _made(
        "--arrivals",
        type=click.Choice([*sorted(GENERATORS), "closed"]),
        help="Make traffic instead of reading a TRACE; closed: users that send again when they "
        "are answered.",
    ),
    _made("--rate", type=float, help="Requests a second; not with closed."),
    _made("--duration", type=SECONDS, help="Time in which requests arrive."),
    _made("--users", type=int, help="Users of closed traffic."),
    _made(
        "--think",
        type=_SPAN,
        help="Pause of a user after an answer, such as 20ms or 5ms-50ms.  [default: 0s]",
    ),
    _made(
        "--turnaround",
        type=_SPAN,
        help="Time that network and client take between an answer and the next request.  "
        "[default: 0.3ms-2.3ms]",
    ),
    _made(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        help="Seed of the random numbers for traffic and workers.",
    ),
    _recording("--superpose", type=int, help="Number of shifted copies of the trace to add."),
    _recording(
        "--rate-scale", type=float, help="Factor for the number of requests in the same time."
    ),
    _recording("--speedup", type=float, help="Divisor of the trace's times."),
    _recording(
        "--trace-format",
        type=click.Choice(list(FORMATS)),
        help="Format of the trace, if its content does not tell.",
    ),
    _recording(
        "--sizes",
        type=_Unit(["ignore", "items", "tokens", "cost"]),
        help="Unit of a request's size, which --latency, --max-batch-size and --max-queue count: "
        "`ignore` counts each request as one item; `items`, `tokens` (of the prompt) and `cost` "
        "(all tokens, milliseconds, bytes) take the sizes in the trace.  [default: items for a "
        "recording of `serve --record`, else ignore]",
    ),
    _kinds(
        "--keys",
        type=Parsed("keys", parse_keys),
        help="Batch keys; only requests with the same key share a batch. `recorded` takes those "
        "of the trace; 8 draws from 8 keys; zipf:8 or zipf:8:1.2 draws the first ones more often.",
    ),
    options_in(COSTS)(
        "--cost",
        type=Parsed("costs", parse_costs),
        help="Cost of each request's items: lognormal:120,0.8 draws costs with that median and "
        "sigma, and lognormal:120,0.8,512 cuts them; bimodal:16,320,20% is 320 for a fifth of "
        "them; `tokens` and `recorded` take the sizes in the trace, as --sizes tokens and cost "
        "would.  [default: the column `cost` of the trace, if it has one]",
    ),
    _kinds(
        "--tenants",
        type=Parsed("tenants", parse_tenants),
        help="Tenants and their shares of the requests: flood:0.9,quiet:0.1. A third number is a "
        "tenant's weight: gold:1:3,other:9.",
    ),
    _kinds(
        "--high-priority",
        type=SHARE,
        help="Share of each tenant's requests with high priority, such as 10%.",
    ),
    _recording(
        "--stream",
        is_flag=True,
        help="Keep neither the trace nor records in memory, for a trace of any length.",
    ),
)


def traffic(trace: Path | None, seed: int, options: Mapping[str, Any]) -> Traffic:
    """The traffic that these options describe; others are left alone.

    Raises:
        TraceError: The trace can't be read.
        ValueError: A number is out of its range.
        click.UsageError: Options do not go together.
    """
    given = {name: options[name] for name in (*_MADE, *_CLOSED, *_RECORDED)}
    lots, crowd, high = options["keys"], options["tenants"], options["high_priority"]
    if high is not None and crowd is None:
        raise click.UsageError("expected --tenants with --high-priority")
    with_keys, costs = lots == "recorded", options["cost"]
    cost = _COUNTED.get(costs)
    if trace is not None:
        known = _recorded(trace, seed, with_keys=with_keys, cost=cost, **given)
    elif with_keys or cost:
        said = "--keys recorded" if with_keys else f"--cost {costs}"
        raise click.UsageError(f"expected a TRACE with {said}, got none")
    else:
        known = _of_arrivals(seed, **given)
    if isinstance(costs, DrawnCosts):
        known = replace(known, costs=replace(costs, seed=seed), costed=str(costs))
    if isinstance(lots, Lots):
        known = replace(known, keys=replace(lots, seed=seed), keyed=str(lots))
    if crowd is not None:
        known = replace(known, crowd=replace(crowd, high=high or 0.0, seed=seed))
    return known


_MADE = ("arrivals", "rate", "duration")
_CLOSED = ("users", "think", "turnaround")
_RECORDED = ("superpose", "rate_scale", "speedup", "trace_format", "sizes", "stream")
TRAFFIC_NAMES = (*_MADE, *_CLOSED, *_RECORDED, "keys", "tenants", "high_priority", "cost")
_COUNTED: dict[object, Measure] = {"tokens": "tokens", "recorded": "cost"}
_SHAPED = ("superpose", "rate_scale", "speedup")
_NO_THINKING = Span(0.0, 0.0)
_TURNAROUND = Span(0.3e-3, 2.3e-3)  # a client on the same network


def _recorded(
    trace: Path, seed: int, *, with_keys: bool, cost: Measure | None, **given: Any
) -> Traffic:
    expect_none("with a TRACE", given, *_MADE, *_CLOSED)
    measure = given["sizes"]
    if measure is None and is_recorded(trace, given["trace_format"]):
        measure = "items"
    if measure == "ignore":
        measure = None
    reading = {
        "form": given["trace_format"],
        "measure": measure,
        "with_sizes": measure is not None,
        "with_keys": with_keys,
        "cost": cost,
    }
    factors = {name: given[name] for name in _SHAPED if given[name] is not None}
    if given["stream"]:
        expect_none("with --stream", given, "superpose", "rate_scale")
        return streamed(trace, factors.get("speedup", 1.0), **reading)
    return recorded(trace, Shaping(**factors), seed=seed, **reading)


def is_recorded(trace: Path, form: str | None = None) -> bool:
    """Whether a trace is what `--record` wrote; not of a terminal, which can be read once.

    Raises:
        TraceError: It can't be read.
    """
    if form is not None:
        return form == "recording"
    return trace.is_file() and is_recording(trace)


def _of_arrivals(seed: int, **given: Any) -> Traffic:
    expect_none("without a TRACE", given, *_RECORDED)
    kind = given["arrivals"]
    if kind is None:
        raise click.UsageError("expected a TRACE or --arrivals, got neither")
    if kind == "closed":
        expect_none("with --arrivals closed", given, "rate")
        _expect("closed", given, "users", "duration")
        think, turnaround = given["think"] or _NO_THINKING, given["turnaround"] or _TURNAROUND
        return closed(given["users"], given["duration"], think, turnaround, seed)
    expect_none(f"with --arrivals {kind}", given, *_CLOSED)
    _expect(kind, given, "rate", "duration")
    return made(kind, rate=given["rate"], duration=given["duration"], seed=seed)


def _expect(kind: str, given: Mapping[str, object], *names: str) -> None:
    for name in names:
        if given[name] is None:
            both = " and ".join(f"--{each}" for each in names)
            raise click.UsageError(f"expected {both} with --arrivals {kind}, got no --{name}")
