"""The options that say how long batches take, and what happens to their workers."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import click

from adaptive_batching.cli.options.parameters import MOST_WORKERS, Parsed
from adaptive_batching.cli.options.sections import COSTS, KEYS_AND_TENANTS, options_in
from adaptive_batching.simulation.clients.keys import Lots
from adaptive_batching.simulation.fitting.model_file import Recorded, read_model
from adaptive_batching.simulation.servers.condition_texts import (
    parse_cold_start,
    parse_crashes,
    parse_drift,
    parse_failures,
    parse_key_costs,
    parse_pauses,
    parse_shared,
)
from adaptive_batching.simulation.servers.conditions import Drift, KeyCosts, Pauses
from adaptive_batching.simulation.servers.curves import Padded, parse_buckets
from adaptive_batching.simulation.servers.runs import Condition
from adaptive_batching.simulation.servers.servers import (
    Server,
    UnevenServers,
    parse_server,
    parse_servers,
)
from adaptive_batching.units import counted, parse_occasion

_N = TypeVar("_N")

_NONE = (0.0, 0.0)  # share of the batches that meet a pause, and its length

_LATENCY = "5ms+0.05ms"
_PADDED = ("--no-padded", "--padded")


def _pause(text: str) -> Pauses | tuple[float, float]:
    """Read what strikes time, `10ms/2s`, or a share of the batches, `0.5%:10ms`.

    Raises:
        ValueError: It is neither.
    """
    return parse_pauses(text) if "/" in text else parse_occasion(text)


_workers = options_in("Workers")

WORKER_OPTIONS = (
    _workers(
        "--latency",
        "server",
        type=Parsed("fixed+per_item or table", parse_server),
        show_default=_LATENCY,
        help="Duration of a batch: constant, 5ms; fixed and per item, 5ms+0.05ms; or by size, "
        "1:5ms,8:5.5ms,64:8ms. Each may add what a unit of --cost takes, 5ms+0.05ms+2us/token, "
        "and its square, +1ns/token^2.",
    ),
    _workers(
        "--latency-from",
        type=Parsed("file", read_model),
        help="File that `fit --save` wrote: the durations of batches and their scatter.",
    ),
    _workers(
        "--worker",
        "servers",
        type=Parsed("[number x] latency", parse_servers),
        multiple=True,
        help="--latency of one worker, 5ms+0.05ms, or of two, 2x5ms+0.05ms, if workers differ; "
        "repeat.",
    ),
    _workers(
        "--pad-to",
        type=Parsed("sizes", parse_buckets),
        help="Pad batches to the next of these sizes, such as 8,16,64, or pow2. The dispatchers "
        "know them, unless --hide-sizes.",
    ),
    options_in(COSTS)(
        "--padded/--no-padded",
        default=None,
        help="Cost of a batch: its items times the largest of their costs, or the sum of their "
        "costs.  [default: --no-padded, or as --latency-from was recorded]",
    ),
    options_in(KEYS_AND_TENANTS)(
        "--key-cost",
        type=Parsed("multiples", parse_key_costs),
        help="Factor for the duration of each key's batches: 1,8 with --keys 2, or "
        "resnet=1,bert=8 with --keys recorded, where other keys have 1.",
    ),
    _workers(
        "--drift",
        "drifts",
        type=Parsed("factor@time", parse_drift),
        multiple=True,
        help="Change of durations. 2x@6s: batches take twice as long from 6 s on; 2x@6s-20s: "
        "gradually; 3:2x@6s: on worker 3 only; the first worker is 0. Repeat.",
    ),
    _workers(
        "--cold-start",
        type=Parsed("batches:duration", parse_cold_start),
        help="Extra duration of each worker's first batches: 5:200ms is for the first 5.",
    ),
    _workers(
        "--failures", type=Parsed("percent", parse_failures), help="Share of batches that fail."
    ),
    _workers(
        "--crashes",
        type=Parsed("percent:duration", parse_crashes),
        help="Share of batches that kill their worker, and the time until it is back: 0.1%:2s.",
    ),
    _workers(
        "--shared-device",
        type=Parsed("percent", parse_shared),
        help="Increase of a batch's duration for each other batch that runs when it begins: 30%.",
    ),
    _workers(
        "--jitter", type=float, default=0.0, help="Sigma of lognormal noise on durations: 0.1."
    ),
    _workers(
        "--pause",
        type=Parsed("duration/duration", _pause),
        default="0%:0ms",
        help="Pauses of the machine: length and mean time between two pauses of a worker, "
        "10ms/2s; or share of delayed batches and length, 0.5%:10ms.",
    ),
)


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
    described = sum(map(len, servers))
    if described > MOST_WORKERS:
        raise click.UsageError(f"expected {MOST_WORKERS} --worker at the most, got {described}")
    return described


def expect_worker(drifts: Sequence[Drift], workers: int) -> None:
    """Refuse a drift that none of so many workers would meet.

    Raises:
        click.UsageError: It names a worker beyond them.
    """
    for drift in drifts:
        if drift.worker is not None and drift.worker >= workers:
            msg = f"expected --drift on a worker below {workers}, got {drift.worker}"
            raise click.UsageError(f"{msg}: the first is 0")


def expect_keys(costs: KeyCosts, keys: Iterable[Hashable] | None, *, recorded: bool) -> None:
    """Refuse costs of other keys than there are; of a stream's keys nothing is known.

    Raises:
        click.UsageError: There are no keys, not as many are drawn, or one is not in the recording.
    """
    drawn = keys.keys if isinstance(keys, Lots) else 0
    numbered = costs.costs.keys() == set(range(drawn or len(costs.costs)))
    if not (drawn or recorded):
        raise click.UsageError(f"expected --keys with --key-cost, got {costs}")
    if drawn and not numbered:
        msg = f"expected {counted(drawn, 'multiple')}, such as 1,8 for two --keys"
        raise click.UsageError(f"{msg}, with --key-cost, got {costs}")
    unknown = costs.costs.keys() - set(keys) if recorded and keys is not None else ()
    if (recorded and numbered) or unknown:
        got = costs if numbered else next(iter(unknown))
        msg = "expected recorded keys with --key-cost, such as resnet=1,bert=8"
        raise click.UsageError(f"{msg}, got {got}")


def expect_costs(server: Server | UnevenServers, *, padded: bool | None, given: bool) -> bool:
    """Whether batches are padded, and refuse durations that depend on costs if there are none.

    Raises:
        click.UsageError: There are no costs where some are needed.
    """
    servers = server.each if isinstance(server, UnevenServers) else (server,)
    terms = [each.costs for each in servers if each.costs is not None]
    if not given and (terms or padded is not None):
        said = "durations that grow with costs" if terms else _PADDED[bool(padded)]
        expected = "expected --cost (recorded, with --stream), or a trace with costs"
        raise click.UsageError(f"{expected}, got {said} alone")
    return terms[0].padded if terms else bool(padded)


def expect_padding(server: Server | UnevenServers) -> None:
    """Refuse to hide sizes if batches are not padded to any.

    Raises:
        click.UsageError: They are not.
    """
    servers = server.each if isinstance(server, UnevenServers) else (server,)
    if not any(isinstance(each.curve, Padded) for each in servers):
        msg = "expected --pad-to, or a recording that shows sizes, got --hide-sizes alone"
        raise click.UsageError(msg)


def server_of(
    *,
    server: Server | None,
    latency_from: Recorded | None,
    servers: tuple[tuple[Server, ...], ...],
    **conditions: Any,
) -> Server | UnevenServers:
    """The workers that these options describe.

    Raises:
        ValueError: A number is out of its range.
        click.UsageError: Options do not go together.
    """
    given = {"latency": server, "latency_from": latency_from, "worker": servers}
    several = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if len(several) > 1:
        raise click.UsageError(f"expected one of {' and '.join(several)}, got both")
    if servers:
        each = tuple(_situated(one, **conditions) for some in servers for one in some)
        return UnevenServers(each)
    fitted = None if latency_from is None else latency_from.server
    if fitted is not None:
        _expect_recorded(fitted, padded=conditions["padded"])
    return _situated(fitted or server or parse_server(_LATENCY), **conditions)


def _expect_recorded(fitted: Server, *, padded: bool | None) -> None:
    """Refuse to add costs up in another way than that by which was learned what a unit takes."""
    if padded is None or fitted.costs is None or fitted.costs.padded == padded:
        return
    expected = f"expected {_PADDED[not padded]}, as the recorded batches were"
    raise click.UsageError(f"{expected}, or --latency, got {_PADDED[padded]}")


def _situated(
    server: Server,
    *,
    jitter: float,
    pause: Pauses | tuple[float, float],
    pad_to: tuple[int, ...] | None,
    padded: bool | None,
    key_cost: Condition | None,
    drifts: tuple[Condition, ...],
    **others: Condition | None,
) -> Server:
    stands, (share, length) = (pause, _NONE) if isinstance(pause, Pauses) else (None, pause)
    known = (key_cost, *drifts, *others.values(), stands)
    conditions = tuple(condition for condition in known if condition is not None)
    steady = replace(server, residuals=())  # they come on top of the padded batch as well
    curve = server.curve if pad_to is None else Padded(steady.mean, pad_to)
    costs = server.costs
    if costs is not None:
        padded = costs.padded if padded is None else padded
        costs = replace(costs, padded=padded, sizes=pad_to or costs.sizes)
    return replace(
        server,
        jitter=jitter,
        pause_probability=share,
        pause=length,
        curve=curve,
        conditions=conditions,
        costs=costs,
    )
