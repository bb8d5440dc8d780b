"""The options that say what is simulated: which traffic, which workers, which limits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import reduce
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import click

from adaptive_batching.cli.parameters import DURATION, SECONDS, Parsed
from adaptive_batching.core import Limits
from adaptive_batching.simulation.arrivals import GENERATORS
from adaptive_batching.simulation.closed_loop import Span, parse_span
from adaptive_batching.simulation.conditions import (
    Condition,
    parse_cold_start,
    parse_crashes,
    parse_drift,
    parse_failures,
    parse_shared,
)
from adaptive_batching.simulation.curves import Padded, parse_buckets
from adaptive_batching.simulation.experiment import Experiment
from adaptive_batching.simulation.fleet import Balance, Fleet
from adaptive_batching.simulation.keys import Lots, parse_keys
from adaptive_batching.simulation.model_file import read_model
from adaptive_batching.simulation.retries import Retries, parse_backoff
from adaptive_batching.simulation.servers import (
    Server,
    UnevenServers,
    parse_pause,
    parse_server,
    parse_servers,
)
from adaptive_batching.simulation.traces import FORMATS
from adaptive_batching.simulation.traffic import (
    Shaping,
    Traffic,
    closed,
    made,
    recorded,
    streamed,
)
from adaptive_batching.units import format_duration

F = TypeVar("F", bound=Callable[..., Any])
_N = TypeVar("_N")

_LATENCY = "5ms+0.05ms"
_SPAN = Parsed("duration or range", parse_span)

_TRAFFIC = (
    click.argument("trace", type=click.Path(path_type=Path), required=False),
    click.option(
        "--arrivals",
        type=click.Choice([*sorted(GENERATORS), "closed"]),
        help="Make traffic instead; closed: users who send again when they are answered.",
    ),
    click.option("--rate", type=float, help="Of made traffic: requests a second."),
    click.option("--duration", type=SECONDS, help="Of made traffic: seconds."),
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
    click.option(
        "--keys",
        type=Parsed("keys", parse_keys),
        help="Only requests of one batch key share a batch: `recorded` takes the keys of the "
        "trace; 8 draws one of so many for each request, zipf:8 or zipf:8:1.2 the first of them "
        "far more often.",
    ),
    click.option("--stream", is_flag=True, help="Keep neither trace nor records: any length fits."),
)

_WORKERS_AND_LIMITS = (
    click.option(
        "--latency",
        "server",
        type=Parsed("fixed+per_item or table", parse_server),
        show_default=_LATENCY,
        help="How long a batch takes: fixed, and for each item; or measured, 1:5ms,8:5.5ms,64:8ms.",
    ),
    click.option(
        "--latency-from",
        type=Parsed("file", read_model),
        help="How long batches took, with their scatter: what `fit --save` wrote.",
    ),
    click.option(
        "--worker",
        "servers",
        type=Parsed("[number x] latency", parse_servers),
        multiple=True,
        help="A --latency for each worker instead, if they differ; 2x5ms+0.05ms for two; repeat.",
    ),
    click.option(
        "--pad-to",
        type=Parsed("sizes", parse_buckets),
        help="Batches are padded to the next of these sizes, say 8,16,64, or pow2.",
    ),
    click.option(
        "--drift",
        "drifts",
        type=Parsed("factor@time", parse_drift),
        multiple=True,
        help="Batches take 2x@6s from then on, or 2x@6s-20s little by little, or 3:2x@6s on worker "
        "3 alone, the first being 0; may be repeated.",
    ),
    click.option(
        "--cold-start",
        type=Parsed("batches:duration", parse_cold_start),
        help="The first batches take longer, say 5:200ms.",
    ),
    click.option("--failures", type=Parsed("percent", parse_failures), help="Batches that fail."),
    click.option(
        "--crashes",
        type=Parsed("percent:duration", parse_crashes),
        help="Batches over which a worker dies, and how long until it is back, say 0.1%:2s.",
    ),
    click.option(
        "--shared-device",
        type=Parsed("percent", parse_shared),
        help="A batch takes so much longer for each that runs when it begins, say 30%.",
    ),
    click.option(
        "--jitter", type=float, default=0.0, help="Sigma of lognormal noise on it, say 0.1."
    ),
    click.option(
        "--pause",
        type=Parsed("percent:duration", parse_pause),
        default="0%:0ms",
        help="Pauses of the machine: share of the batches and length, say 0.5%:10ms.",
    ),
    click.option(
        "--max-latency",
        type=DURATION,
        default=inf,
        show_default="none",
        help="From arrival to answer, of requests whose own is not in the trace.",
    ),
    click.option("--max-batch-size", type=int, default=64, help="Items."),
    click.option("--max-queue", type=int, default=65_536, help="Items waiting."),
    click.option(
        "--timer-resolution", type=DURATION, default=0.0, help="Round wake-ups up to this."
    ),
    click.option(
        "--loop-delay",
        type=DURATION,
        default=0.0,
        help="Of the event loop: everything is noticed so much later.",
    ),
    click.option(
        "--dispatchers",
        type=click.IntRange(min=1, max=1000),
        default=1,
        help="Each with a queue of its own and its share of the workers.",
    ),
    click.option(
        "--balance",
        type=click.Choice(["in-turn", "random", "least"]),
        help="Which dispatcher gets a request; least: with the fewest under way.  "
        "[default: in-turn]",
    ),
    click.option(
        "--shared-workers",
        is_flag=True,
        help="Every dispatcher sends to all workers, which take batches as they come.",
    ),
    click.option(
        "--retries",
        type=click.IntRange(min=1),
        help="Clients who are refused or late send again, so often at the most; goodput is of the "
        "requests, however often they were sent.",
    ),
    click.option(
        "--backoff",
        type=Parsed("duration or retry-after", parse_backoff),
        default="retry-after",
        help="Of retries: when, say 50ms, doubled each time; 0s for at once; or when told.",
    ),
    click.option("--warmup", type=SECONDS, default=0.0, help="Seconds left out of the statistics."),
)


def condition_options(command: F) -> F:
    """Add all of them to a command, which passes them on to `conditions`."""
    options = (*_TRAFFIC, *_WORKERS_AND_LIMITS)
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)


def conditions(
    trace: Path | None, seed: int, options: Mapping[str, Any]
) -> tuple[Traffic, Experiment]:
    """The traffic, and the experiment that is made with it.

    Raises:
        TraceError: The trace can't be read.
        ValueError: A number is out of its range.
        click.UsageError: Options do not go together.
    """
    given = {name: options[name] for name in (*_MADE, *_CLOSED, *_RECORDED)}
    rest = {name: value for name, value in options.items() if name not in {*given, "keys"}}
    lots = options["keys"]
    with_keys = lots == "recorded"
    if trace is None:
        if with_keys:
            raise click.UsageError("expected a TRACE with --keys recorded, got none")
        traffic = _made(seed, **given)
    else:
        traffic = _recorded(trace, seed, with_keys=with_keys, **given)
    if isinstance(lots, Lots):
        traffic = replace(traffic, keys=replace(lots, seed=seed), keyed=str(lots))
    return traffic, _experiment(traffic, seed, **rest)


def number_of_workers(servers: Sequence[tuple[Server, ...]], workers: _N) -> _N | int:
    """How many --worker describe, or else what --workers says.

    Raises:
        click.UsageError: Both were given.
    """
    if not servers:
        return workers
    source = click.get_current_context().get_parameter_source("workers")
    if source is not click.core.ParameterSource.DEFAULT:
        raise click.UsageError(f"expected no --workers with --worker, got {workers}")
    return sum(map(len, servers))


def title(traffic: Traffic, experiment: Experiment) -> str:
    """What was simulated, in a line."""
    promise = experiment.limits.max_latency
    within = "no max_latency" if promise == inf else f"within {format_duration(promise)}"
    rate = traffic.facts["rate"]
    known = () if rate is None else (f"{rate:,.0f} requests/s",)
    shaped = (
        f"{name.replace('_', ' ')} {factor:g}"
        for name, factor in asdict(traffic.shaping).items()
        if factor != 1
    )
    keyed = () if traffic.keyed is None else (traffic.keyed,)
    again = () if experiment.retries is None else (str(experiment.retries),)
    own = ("unless recorded",) if traffic.max_latencies is not None else ()
    fleet = experiment.fleet
    several = (str(fleet),) if fleet.dispatchers > 1 else ()
    return ", ".join(
        (str(traffic), *known, *shaped, *keyed, *several, *again, " ".join((within, *own)))
    )


_MADE = ("arrivals", "rate", "duration")
_CLOSED = ("users", "think", "turnaround")
_RECORDED = ("superpose", "rate_scale", "speedup", "trace_format", "sizes", "stream")
_NO_THINKING = Span(0.0, 0.0)
_TURNAROUND = Span(0.3e-3, 2.3e-3)  # a client on the same network


def expect_none(where: str, given: Mapping[str, object], *names: str) -> None:
    """Refuse options that do not go with another."""
    for name in names:
        if given[name] not in {None, False, "ignore"}:
            option = name.replace("_", "-")
            raise click.UsageError(f"expected no --{option} {where}, got {given[name]}")


def _recorded(trace: Path, seed: int, *, with_keys: bool, **given: Any) -> Traffic:
    expect_none("with a TRACE", given, *_MADE, *_CLOSED)
    measure = None if given["sizes"] == "ignore" else given["sizes"]
    reading = {
        "form": given["trace_format"],
        "measure": measure,
        "with_sizes": measure is not None,
        "with_keys": with_keys,
    }
    factors = {name: given[name] for name in _SHAPED if given[name] is not None}
    if given["stream"]:
        expect_none("with --stream", given, "superpose", "rate_scale")
        return streamed(trace, factors.get("speedup", 1.0), **reading)
    return recorded(trace, Shaping(**factors), seed=seed, **reading)


_SHAPED = ("superpose", "rate_scale", "speedup")


def _made(seed: int, **given: Any) -> Traffic:
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


def _experiment(
    traffic: Traffic,
    seed: int,
    *,
    max_latency: float,
    max_batch_size: int,
    max_queue: int,
    timer_resolution: float,
    loop_delay: float,
    retries: int | None,
    backoff: float | None,
    dispatchers: int,
    balance: Balance | None,
    shared_workers: bool,
    warmup: float,
    **workers: Any,
) -> Experiment:
    if dispatchers == 1:
        single = {"balance": balance, "shared_workers": shared_workers}
        expect_none("with one dispatcher", single, *single)
    return Experiment(
        arrivals=traffic.arrivals,
        server=_server(**workers),
        limits=Limits(max_batch_size, max_latency, max_queue),
        sizes=traffic.sizes,
        keys=traffic.keys,
        max_latencies=traffic.max_latencies,
        fleet=Fleet(dispatchers, balance or "in-turn", shared_workers),
        timer_resolution=timer_resolution,
        loop_delay=loop_delay,
        retries=None if retries is None else Retries(retries, backoff),
        warmup=warmup,
        seed=seed,
    )


def _server(
    *,
    server: Server | None,
    latency_from: Server | None,
    servers: tuple[tuple[Server, ...], ...],
    **conditions: Any,
) -> Server | UnevenServers:
    given = {"latency": server, "latency_from": latency_from, "worker": servers}
    several = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if len(several) > 1:
        raise click.UsageError(f"expected one of {' and '.join(several)}, got both")
    if servers:
        each = tuple(_situated(one, **conditions) for some in servers for one in some)
        return UnevenServers(each)
    return _situated(latency_from or server or parse_server(_LATENCY), **conditions)


def _situated(
    server: Server,
    *,
    jitter: float,
    pause: tuple[float, float],
    pad_to: tuple[int, ...] | None,
    drifts: tuple[Condition, ...],
    **others: Condition | None,
) -> Server:
    conditions = (*drifts, *(each for each in others.values() if each is not None))
    steady = replace(server, residuals=())  # they come on top of the padded batch as well
    curve = server.curve if pad_to is None else Padded(steady.mean, pad_to)
    share, length = pause
    return replace(
        server,
        jitter=jitter,
        pause_probability=share,
        pause=length,
        curve=curve,
        conditions=conditions,
    )
