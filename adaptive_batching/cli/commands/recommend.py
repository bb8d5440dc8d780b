"""`adaptive-batching recommend`: how many workers some traffic needs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.table import Table

from adaptive_batching.cli.endings import policy_errors_told, writing
from adaptive_batching.cli.heading import title
from adaptive_batching.cli.options.conditions import condition_options, conditions
from adaptive_batching.cli.options.parameters import (
    FORMAT,
    GOODPUT,
    POLICY,
    RANGE,
    RATE,
)
from adaptive_batching.cli.options.sections import SectionedCommand, options_in
from adaptive_batching.cli.options.workers import expect_worker
from adaptive_batching.cli.progress import progress
from adaptive_batching.cli.screen import screen
from adaptive_batching.core import Limits, next_allowed
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.clients.closed_loop import ClosedLoop
from adaptive_batching.simulation.fitting.model_file import Recorded
from adaptive_batching.simulation.study.capacity import (
    CURVE,
    Point,
    Search,
    Trial,
    batch_limits,
    curve,
    limited,
    smallest,
)
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.target import Target
from adaptive_batching.units import counted

_asked = options_in("Question")


@click.command(
    "recommend", no_args_is_help=True, context_settings={"show_default": True}, cls=SectionedCommand
)
@condition_options
@_asked("--policy", type=POLICY, default="cork", help="Policy, as in simulate.")
@_asked("--workers", type=RANGE, default="1..8", help="Numbers of workers to choose from.")
@_asked(
    "--goodput",
    type=GOODPUT,
    default="99%",
    help="Share of all requests that have to be answered within --max-latency.",
)
@_asked(
    "--throughput",
    type=RATE,
    help="Answers a second that the users have to get; for closed traffic.",
)
@FORMAT
def command(
    trace: Path | None,
    *,
    policy: str,
    workers: range,
    goodput: float,
    throughput: float | None,
    seed: int,
    form: str,
    **options: Any,
) -> None:
    """Find the fewest workers that answer TRACE in time, and the best batch limit for them.

    With these workers the goodput is at least --goodput, and the p99 of the answered requests is
    within --max-latency. The batch limits tried are --max-batch-size, the powers of two below it
    and the largest recorded batch, or the sizes of --pad-to up to it. One beyond the largest
    recorded batch is recommended only if no other holds. A curve then shows the same workers
    under less and more traffic. The exit status is 1 if no number of --workers is enough.

    With --arrivals closed it finds the fewest workers for the given --users. The goal is then
    --max-latency, --throughput, or both.
    """
    expect_worker(options["drifts"], workers[-1])
    try:
        with policy_errors_told():
            traffic, experiment = conditions(trace, options, seed)
            target = _target(experiment, goodput, throughput)
            recorded = _largest_recorded(options["latency_from"], options["pad_to"])
            search, points = _searched(experiment, policy, workers, target, recorded)
    except (TraceError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    with writing():
        if form == "json":
            facts = {"trace": traffic.facts, "loop_delay": experiment.loop_delay}
            answer = {**facts, "recorded": recorded, **_as_json(search, points, target)}
            click.echo(json.dumps(answer, indent=2, allow_nan=False))
        else:
            _print(search, points, f"{title(traffic, experiment)}, seed {seed}")
            if search.best is not None:
                _show_choice(search.best, recorded)
                _show_settings(search.best, policy, experiment.limits)
                _show_worth_of_costs(search.best, policy, experiment)
    if search.best is None:
        raise click.exceptions.Exit(1)


def _largest_recorded(model: Recorded | None, sizes: Sequence[int] | None) -> int | None:
    """Items of the largest batch of a recording as its model ran it; None without a recording."""
    if model is None or model.largest is None:
        return None
    return next_allowed(sizes or (), model.largest)


def _target(experiment: Experiment, goodput: float, throughput: float | None) -> Target:
    promise = experiment.limits.max_latency
    closed = isinstance(experiment.arrivals, ClosedLoop)
    if throughput is not None and not closed:
        got = f"expected --arrivals closed with --throughput, got {throughput:g} of given arrivals"
        raise click.UsageError(got)
    if promise == inf and throughput is None:
        options = "--max-latency or --throughput" if closed else "--max-latency"
        raise click.UsageError(f"expected {options}, which workers are to hold, got none")
    return Target(goodput, promise, throughput)


def _searched(
    experiment: Experiment, policy: str, workers: range, target: Target, recorded: int | None
) -> tuple[Search, list[Point]]:
    limits = batch_limits(experiment.limits, recorded)
    with progress("workers and batch limits", len(workers) * len(limits)) as done:
        search = smallest(experiment, policy, workers, target, recorded=recorded, done=done)
    if search.best is None:
        return search, []
    points = []
    with progress("more and less traffic", len(CURVE)) as done:
        for point in curve(experiment, policy, search.best, target):
            points.append(point)
            done()
    return search, points


def _as_json(search: Search, points: Sequence[Point], target: Target) -> dict[str, Any]:
    best, within = search.best, target.max_latency
    return {
        "target": {**asdict(target), "max_latency": None if within == inf else within},
        "recommended": None if best is None else _facts(best),
        "short": [asdict(each) for each in search.short],
        "tried": [{**_facts(trial), "holds": trial.holds} for trial in search.tried],
        "curve": [asdict(point) for point in points],
    }


def _facts(trial: Trial) -> dict[str, Any]:
    return {
        "workers": trial.row.workers,
        "max_batch_size": trial.max_batch_size,
        "goodput": trial.row.goodput,
        "throughput": trial.row.throughput,
        "p99_latency": trial.row.p99_latency,
        "mean_latency": trial.row.mean_latency,
    }


def _print(search: Search, points: Sequence[Point], heading: str) -> None:
    console = screen()
    console.print(heading)
    best, tried = search.best, search.tried
    number = None if best is None else best.row.workers
    console.print(_table([trial for trial in tried if number in {None, trial.row.workers}]))
    for short in search.short:
        console.print(f"{counted(short.workers, 'worker')}: {'; '.join(short.reasons)}")
    if best is None:
        console.print("no number of workers was enough")
        return
    console.print("These workers under less and more of the traffic")
    drawn = _columns("rate" if points[0].users is None else "users")
    for point in points:
        users = point.users
        drawn.add_row(f"{point.scale:g}" if users is None else f"{users:,}", *_cells(point))
    console.print(drawn)


def _show_choice(best: Trial, recorded: int | None) -> None:
    """Print why this batch limit is recommended."""
    size, why = best.max_batch_size, "has the most goodput, and then the least p99"
    if recorded is None:
        click.echo(f"Of the limits that hold, this one {why}.")
    elif size <= recorded:
        largest = f"up to the largest recorded batch, {counted(recorded, 'item')}"
        click.echo(f"Of the limits that hold, {largest}, this one {why}.")
    else:
        click.echo(f"Only limits beyond the largest recorded batch hold, and this one {why}.")
        click.echo(
            f"Warning: how long batches of {size} take is extrapolated from up to {recorded}; to"
            f" stay within what was seen, say --max-batch-size {recorded} and more --workers"
        )


def _show_settings(best: Trial, policy: str, limits: Limits) -> None:
    """Print the recommendation as a program takes it, a file of endpoints, and the sidecar."""
    size, workers, max_latency = best.max_batch_size, best.row.workers, limits.max_latency
    sizes = list(limited(limits, size).sizes)
    said = [f"sizes={sizes}" if sizes else f"max_batch_size={size}", f"workers={workers}"]
    table = ['[endpoints."/predict"]', f"max_batch_size = {size}"]
    if sizes:
        table.append(f"sizes = {sizes}  # unless the program says them")
    if max_latency < inf:
        said.append(f"max_latency={max_latency:g}")
        table.append(f'max_latency = "{max_latency:g}s"')
    if policy != "cork":
        said.append(f"policy={policy!r}")
        table.append(f'policy = "{policy}"')
    if limits.costs is not None:
        said.append("cost=<what an item costs, such as len>")
        said += ["padded=True"] * limits.costs.padded
        if limits.costs.max_batch_cost < inf:
            said.append(f"max_batch_cost={limits.costs.max_batch_cost:g}")
            table.append(f"max_batch_cost = {limits.costs.max_batch_cost:g}")
    click.echo(f"in a program: {', '.join(said)}")
    click.echo(f"or for `serve --workers {workers} --config service.toml`, in service.toml:\n")
    click.echo("\n".join(table))
    padding = ", which pads to --sizes; without --pad-to-sizes if they do" if sizes else ""
    before = f"before {counted(workers, 'model server')} (--upstream){padding}"
    click.echo(f"\nor for `sidecar` {before}:\n")
    click.echo(_options_of_sidecar(limited(limits, size), policy))


def _options_of_sidecar(limits: Limits, policy: str) -> str:
    """The recommendation as it is typed; its cost is for the reader to say."""
    said = [f"--max-batch-size {limits.max_batch_size}"]
    if limits.sizes:
        said.append(f"--sizes {','.join(map(str, limits.sizes))} --pad-to-sizes")
    if limits.max_latency < inf:
        said.append(f"--max-latency {limits.max_latency:g}s")
    if policy != "cork":
        said.append(f"--policy {policy}")
    if limits.costs is not None:
        said.append("--cost <what an item costs, such as chars>")
        said += ["--no-padded"] * (not limits.costs.padded)
        if limits.costs.max_batch_cost < inf:
            said.append(f"--max-batch-cost {limits.costs.max_batch_cost:.0f}")
    return " ".join(said)


def _show_worth_of_costs(best: Trial, policy: str, experiment: Experiment) -> None:
    """Print what the same workers would do if they were not told what items cost.

    Both are asked for the same requests: without costs none would be refused for its cost.
    """
    if experiment.limits.costs is None:
        return
    limits = limited(experiment.limits, best.max_batch_size)
    told = replace(experiment, limits=limits).that_fit()
    hidden = replace(told, limits=replace(limits, costs=None))
    rows = (each.run(policy, best.row.workers) for each in (told, hidden))
    with_costs, without = (f"{row.goodput or 0.0:.2%}" for row in rows)
    cheap = "" if told.arrivals is experiment.arrivals else " of what max_batch_cost lets in"
    click.echo(f"\nwith cost= {with_costs}{cheap} are answered in time, without it {without}")


def _table(trials: Sequence[Trial]) -> Table:
    drawn = _columns("workers", "batch limit")
    for trial in trials:
        drawn.add_row(str(trial.row.workers), str(trial.max_batch_size), *_cells(trial))
    return drawn


def _columns(*first: str) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD)
    for name in (*first, "goodput", "answers/s", "p99 ms", "mean ms", "batch", "holds"):
        drawn.add_column(name, justify="right", no_wrap=True)
    return drawn


def _cells(simulated: Trial | Point) -> tuple[str, ...]:
    row = simulated.row
    numbers = (row.p99_latency, row.mean_latency)
    return (
        "-" if row.goodput is None else f"{row.goodput:.2%}",
        "-" if row.throughput is None else f"{row.throughput:,.0f}",
        *("-" if each is None else f"{each * 1e3:.2f}" for each in numbers),
        "-" if row.mean_batch_size is None else f"{row.mean_batch_size:.1f}",
        "yes" if simulated.holds else "no",
    )
