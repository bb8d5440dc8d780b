"""The options that say what is simulated: which traffic, which workers, which limits."""

from collections.abc import Mapping
from dataclasses import replace
from functools import wraps
from math import inf
from pathlib import Path
from typing import Any

import click

from adaptive_batching.cli.options.declared import Command, add_options
from adaptive_batching.cli.options.parameters import (
    DURATION,
    ITEMS,
    SECONDS,
    Parsed,
    expect_none,
    expect_shorter,
)
from adaptive_batching.cli.options.sections import COSTS, KEYS_AND_TENANTS, OUTPUT, options_in
from adaptive_batching.cli.options.traffic import (
    TRAFFIC_NAMES,
    TRAFFIC_OPTIONS,
    is_recorded,
    traffic,
)
from adaptive_batching.cli.options.workers import (
    WORKER_OPTIONS,
    expect_costs,
    expect_keys,
    expect_padding,
    server_of,
)
from adaptive_batching.core import Costs, Limits
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.clients.retries import Retries, parse_backoff
from adaptive_batching.simulation.fitting.loop_delay import LOOP_DELAY
from adaptive_batching.simulation.fitting.model_file import Recorded, recorded_by
from adaptive_batching.simulation.kernel.fleet import Balance, Fleet
from adaptive_batching.simulation.servers.curves import POW2
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.traffic import Traffic

_limits = options_in("Limits")
_clients = options_in("Clients that send again")
_dispatchers = options_in("Dispatchers")
_costs = options_in(COSTS)
_kinds = options_in(KEYS_AND_TENANTS)
_output = options_in(OUTPUT)

_USUAL = 64  # items, as where a program says nothing

_RUN_OPTIONS = (
    _limits(
        "--max-latency",
        type=DURATION,
        default=inf,
        show_default="none",
        help="Longest time from arrival to answer; a request's own limit in the trace overrides "
        "it.",
    ),
    _limits(
        "--max-batch-size",
        type=ITEMS,
        help=f"Items in a batch at most.  [default: {_USUAL}, or the largest size of --pad-to]",
    ),
    _limits(
        "--max-queue",
        type=ITEMS,
        default=65_536,
        help="Items that may wait; further requests are refused.",
    ),
    _limits(
        "--hide-sizes",
        is_flag=True,
        help="Do not tell the dispatchers the sizes of --pad-to, as if the model padded without a "
        "word: they batch and forecast as for any other model.",
    ),
    _costs(
        "--max-batch-cost",
        type=click.FloatRange(min=0, min_open=True),
        help="Cost of a batch at most; a request that costs more is refused.",
    ),
    _costs(
        "--hide-costs",
        is_flag=True,
        help="Do not tell the dispatchers the costs: they batch and forecast by size alone.",
    ),
    _kinds(
        "--first-come",
        is_flag=True,
        help="Serve the requests of --tenants in the order of arrival, without fairness.",
    ),
    _kinds(
        "--ageing",
        type=DURATION,
        help="A high-priority request overtakes only normal ones that have waited less than this.  "
        "[default: a quarter of --max-latency, or 1s]",
    ),
    _dispatchers(
        "--timer-resolution", type=DURATION, default=0.0, help="Timers fire at multiples of this."
    ),
    _dispatchers(
        "--loop-delay",
        type=DURATION,
        help="Delay with which the event loop notices events; 0ms for a perfect loop.  "
        f"[default: {LOOP_DELAY * 1e3:g}ms, or as --latency-from was recorded]",
    ),
    _dispatchers(
        "--dispatchers",
        type=click.IntRange(min=1, max=1000),
        default=1,
        help="Dispatchers, each with a queue of its own and its share of the workers.",
    ),
    _dispatchers(
        "--balance",
        type=click.Choice(["in-turn", "random", "least"]),
        help="Rule by which a dispatcher gets a request; least: the one with the fewest requests.  "
        "[default: in-turn]",
    ),
    _dispatchers(
        "--shared-workers",
        is_flag=True,
        help="Let every dispatcher send to all workers, which run batches in the order of arrival.",
    ),
    _clients(
        "--retries",
        type=int,
        help="Times that a refused or late request is sent again at most; goodput counts a "
        "request once.",
    ),
    _clients(
        "--backoff",
        type=Parsed("duration or retry-after", parse_backoff),
        help="Pause before a request is sent again: 50ms, doubled each time; 0s; or retry-after.  "
        "[default: retry-after]",
    ),
    _limits(
        "--idempotent",
        is_flag=True,
        help="Run batches that fail by --failures or --crashes again, in parts.",
    ),
    _output(
        "--warmup",
        type=SECONDS,
        default=0.0,
        help="Time at the beginning that is left out of the statistics.",
    ),
)


def condition_options(command: Command) -> Command:
    """Add all of them to a command, which passes them on to `conditions`.

    Batches of a recording take as long as they did there, unless the options say otherwise.
    """

    @wraps(command)
    def with_durations(trace: Path | None, **options: Any) -> Any:
        said = any(options[name] for name in ("server", "latency_from", "servers"))
        if trace is not None and not said:
            options["latency_from"] = _durations(trace)
        return command(trace, **options)

    return add_options(with_durations, (*TRAFFIC_OPTIONS, *WORKER_OPTIONS, *_RUN_OPTIONS))


def _durations(trace: Path) -> Recorded | None:
    """Learn from a recording how long its batches took; None if the trace is none."""
    try:
        if not is_recorded(trace):
            return None
        # a second that no other run needs: the optimizer
        from adaptive_batching.simulation.fitting.fit import fit_recording  # noqa: PLC0415

        fitted = fit_recording(trace)
    except TraceError as error:
        raise click.UsageError(str(error)) from error
    except ValueError as error:
        raise click.UsageError(f"{error}; say --latency, how long batches take") from error
    click.echo(f"batches take as long as in {trace}: {fitted.spelling}", err=True)
    for warning in fitted.warnings:
        click.echo(f"Warning: {warning}", err=True)
    if fitted.pad_to:
        click.echo(
            f"the sizes are hidden; say{fitted.pad_to} if the service declares them", err=True
        )
    return recorded_by(fitted)


def conditions(
    trace: Path | None, options: Mapping[str, Any], seed: int
) -> tuple[Traffic, Experiment]:
    """The traffic, and the experiment that is made with it.

    Raises:
        TraceError: The trace can't be read.
        ValueError: A number is out of its range.
        click.UsageError: Options do not go together.
    """
    known = traffic(trace, seed, options)
    if (costs := options["key_cost"]) is not None:
        expect_keys(costs, known.keys, recorded=options["keys"] == "recorded")
        known = replace(known, keyed=f"{known.keyed} ({costs})")
    rest = {name: value for name, value in options.items() if name not in TRAFFIC_NAMES}
    return known, _experiment(known, seed, **rest)


def experiment_of(trace: Path | None, options: Mapping[str, Any], seed: int) -> Experiment:
    """The experiment of `conditions` without the traffic; other processes can be sent it."""
    return conditions(trace, options, seed)[1]


def _experiment(
    traffic: Traffic,
    seed: int,
    *,
    max_latency: float,
    max_batch_size: int | None,
    max_queue: int,
    timer_resolution: float,
    loop_delay: float | None,
    retries: int | None,
    backoff: float | None,
    dispatchers: int,
    balance: Balance | None,
    shared_workers: bool,
    idempotent: bool,
    warmup: float,
    first_come: bool,
    ageing: float | None,
    max_batch_cost: float | None,
    hide_costs: bool,
    hide_sizes: bool,
    **workers: Any,
) -> Experiment:
    if dispatchers == 1:
        single = {"balance": balance, "shared_workers": shared_workers}
        expect_none("with one dispatcher", single, *single)
    if retries is None and backoff is not None:
        raise click.UsageError("expected --retries with --backoff")
    expect_shorter("warmup", warmup, traffic.duration)
    if idempotent and not (workers["failures"] or workers["crashes"]):
        raise click.UsageError("expected --failures or --crashes with --idempotent")
    crowd = traffic.crowd
    if crowd is None:
        alone = {"first_come": first_come, "ageing": ageing}
        expect_none("without --tenants", alone, *alone)
    if loop_delay is None:
        recorded: Recorded | None = workers["latency_from"]
        loop_delay = LOOP_DELAY if recorded is None else recorded.loop_delay
    server = server_of(**workers)
    if hide_sizes:
        expect_padding(server)
    padded = expect_costs(server, padded=workers["padded"], given=traffic.costed is not None)
    costs = _costs_told(traffic, max_batch_cost, padded=padded, hidden=hide_costs)
    sizes: tuple[int, ...] = workers["pad_to"] or ()
    told = () if hide_sizes else sizes
    return Experiment(
        arrivals=traffic.arrivals,
        server=server,
        limits=Limits(
            _largest_batch(max_batch_size, sizes, told), max_latency, max_queue, costs, told
        ),
        sizes=traffic.sizes,
        keys=traffic.keys,
        max_latencies=traffic.max_latencies,
        claims=crowd,
        costs=traffic.costs,
        fairness=None if crowd is None or first_come else crowd.fairness(ageing),
        fleet=Fleet(dispatchers, balance or "in-turn", shared_workers),
        timer_resolution=timer_resolution,
        loop_delay=loop_delay,
        retries=None if retries is None else Retries(retries, backoff),
        idempotent=idempotent,
        warmup=warmup,
        seed=seed,
    )


def _largest_batch(most: int | None, sizes: tuple[int, ...], told: tuple[int, ...]) -> int:
    """Items in a batch at most, as a service with these sizes has them: the largest, or one.

    Args:
        most: What --max-batch-size says; None if nothing.
        sizes: Those of --pad-to; empty without it.
        told: Those of them that the dispatchers are told of.
    """
    if most is None:
        return sizes[-1] if sizes and sizes != POW2 else _USUAL
    if told and most not in told:
        named = "the powers of two" if told == POW2 else ",".join(map(str, told))
        expected = f"expected one of --pad-to {named}, or to be left out beside it"
        raise click.UsageError(f"--max-batch-size: {expected}, got {most}")
    return most


def _costs_told(
    traffic: Traffic, max_batch_cost: float | None, *, padded: bool, hidden: bool
) -> Costs | None:
    """What the dispatchers are told of the costs."""
    bound = {"max_batch_cost": max_batch_cost}
    if traffic.costed is None:
        for option, given in (
            (f"--max-batch-cost {max_batch_cost or 0:g}", max_batch_cost is not None),
            ("--hide-costs", hidden),
        ):
            if given:
                msg = f"expected --cost, or a trace with costs, got {option} alone"
                raise click.UsageError(msg)
        return None
    if hidden:
        expect_none("with --hide-costs", bound, *bound)
        return None
    return Costs(padded, inf if max_batch_cost is None else max_batch_cost)
