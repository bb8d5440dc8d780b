"""The options that say what is simulated: which traffic, which workers, which limits."""

from collections.abc import Mapping
from dataclasses import asdict, replace
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
from adaptive_batching.cli.options.traffic import TRAFFIC_NAMES, TRAFFIC_OPTIONS, traffic
from adaptive_batching.cli.options.workers import WORKER_OPTIONS, expect_keys, server_of
from adaptive_batching.core import Limits
from adaptive_batching.simulation.clients.retries import Retries, parse_backoff
from adaptive_batching.simulation.fitting.loop_delay import LOOP_DELAY
from adaptive_batching.simulation.fitting.model_file import Recorded
from adaptive_batching.simulation.kernel.fleet import Balance, Fleet
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.traffic import Traffic
from adaptive_batching.units import format_duration

_RUN_OPTIONS = (
    click.option(
        "--max-latency",
        type=DURATION,
        default=inf,
        show_default="none",
        help="From arrival to answer, of requests whose own is not in the trace.",
    ),
    click.option("--max-batch-size", type=ITEMS, default=64, help="Items."),
    click.option("--max-queue", type=ITEMS, default=65_536, help="Items waiting."),
    click.option(
        "--first-come",
        is_flag=True,
        help="Of --tenants: serve them as they come, whosever they are.",
    ),
    click.option(
        "--ageing",
        type=DURATION,
        help="Of --high-priority: what comes so much later goes before no normal request.  "
        "[default: a quarter of --max-latency, or 1s]",
    ),
    click.option(
        "--timer-resolution", type=DURATION, default=0.0, help="Round wake-ups up to this."
    ),
    click.option(
        "--loop-delay",
        type=DURATION,
        help="Of the event loop: everything is noticed so much later; 0ms for a perfect one.  "
        f"[default: {LOOP_DELAY * 1e3:g}ms, or as --latency-from was recorded]",
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
        type=int,
        help="Clients who are refused or late send again, so often at the most; goodput is of the "
        "requests, however often they were sent.",
    ),
    click.option(
        "--backoff",
        type=Parsed("duration or retry-after", parse_backoff),
        help="Of retries: when, say 50ms, doubled each time; 0s for at once; or when told.  "
        "[default: retry-after]",
    ),
    click.option(
        "--idempotent",
        is_flag=True,
        help="Of --failures and --crashes: a batch that fails runs again in parts.",
    ),
    click.option("--warmup", type=SECONDS, default=0.0, help="Seconds left out of the statistics."),
)


def condition_options(command: Command) -> Command:
    """Add all of them to a command, which passes them on to `conditions`."""
    return add_options(command, (*TRAFFIC_OPTIONS, *WORKER_OPTIONS, *_RUN_OPTIONS))


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
    """The same without the traffic; other processes can be sent it."""
    return conditions(trace, options, seed)[1]


def title(traffic: Traffic, experiment: Experiment) -> str:
    """What was simulated, in a line."""
    promise = experiment.limits.max_latency
    within = "no max_latency" if promise == inf else f"within {format_duration(promise)}"
    rate = traffic.facts["rate"]
    known = (_per_second(rate),) if isinstance(rate, float) else ()
    shaped = (
        f"{name.replace('_', ' ')} {factor:g}"
        for name, factor in asdict(traffic.shaping).items()
        if factor != 1
    )
    keyed = tuple(str(each) for each in (traffic.keyed, traffic.crowd) if each is not None)
    again = () if experiment.retries is None else (str(experiment.retries),)
    own = ("unless recorded",) if traffic.max_latencies is not None else ()
    fleet = experiment.fleet
    several = (str(fleet),) if fleet.dispatchers > 1 else ()
    late = (f"loop {format_duration(experiment.loop_delay)} late",) if experiment.loop_delay else ()
    promised = " ".join((within, *own))
    return ", ".join((str(traffic), *known, *shaped, *keyed, *several, *again, *late, promised))


def _per_second(rate: float) -> str:
    return f"{rate:{',.0f' if rate >= 10 else '.2g'}} request{'' if rate == 1 else 's'}/s"


def _experiment(
    traffic: Traffic,
    seed: int,
    *,
    max_latency: float,
    max_batch_size: int,
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
    return Experiment(
        arrivals=traffic.arrivals,
        server=server_of(**workers),
        limits=Limits(max_batch_size, max_latency, max_queue),
        sizes=traffic.sizes,
        keys=traffic.keys,
        max_latencies=traffic.max_latencies,
        claims=crowd,
        fairness=None if crowd is None or first_come else crowd.fairness(ageing),
        fleet=Fleet(dispatchers, balance or "in-turn", shared_workers),
        timer_resolution=timer_resolution,
        loop_delay=loop_delay,
        retries=None if retries is None else Retries(retries, backoff),
        idempotent=idempotent,
        warmup=warmup,
        seed=seed,
    )
