"""`adaptive-batching simulate`: the same traffic through several policies, in virtual time."""

import importlib.util
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from adaptive_batching.cli.endings import policy_errors_told, writing
from adaptive_batching.cli.heading import title
from adaptive_batching.cli.options.conditions import (
    condition_options,
    conditions,
    experiment_of,
)
from adaptive_batching.cli.options.parameters import (
    FORMAT,
    POLICY,
    REPLICATIONS,
    WORKERS,
    expect_none,
)
from adaptive_batching.cli.options.sections import OUTPUT, SectionedCommand, options_in
from adaptive_batching.cli.options.workers import expect_worker, number_of_workers
from adaptive_batching.cli.progress import progress
from adaptive_batching.cli.screen import screen
from adaptive_batching.core.policies import KNOWN
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.bounds.limit import Limit, limit_of
from adaptive_batching.simulation.servers.curves import Curve
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.replications import Replicated, replicate, replicated_table
from adaptive_batching.simulation.study.report import Row, parts_table, table
from adaptive_batching.simulation.study.traffic import Traffic

_compared = options_in("Comparison")


@click.command(no_args_is_help=True, context_settings={"show_default": True}, cls=SectionedCommand)
@condition_options
@_compared(
    "--policy",
    "policies",
    type=POLICY,
    multiple=True,
    default=("cork", "greedy"),
    help=f"{', '.join(KNOWN)}; repeat to compare.",
)
@_compared(
    "--workers",
    type=WORKERS,
    multiple=True,
    default=(1,),
    help="Batches that may run at the same time; repeat to compare.",
)
@options_in(OUTPUT)(
    "--replications",
    type=REPLICATIONS,
    default=1,
    help="Runs with successive seeds, for 95 % confidence intervals; policies are compared with "
    "the first seed by seed.",
)
@options_in(OUTPUT)(
    "--limit",
    "with_limit",
    is_flag=True,
    help="Show the best that was possible with all arrivals known; for one number of workers.",
)
@options_in(OUTPUT)(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write figures to one HTML file as well; needs matplotlib.",
)
@options_in(OUTPUT)(
    "--load",
    "loads",
    type=float,
    multiple=True,
    help="Add curves over the load to the report, with traffic this many times as dense; repeat.",
)
@FORMAT
def command(
    trace: Path | None,
    *,
    policies: tuple[str, ...],
    workers: tuple[int, ...],
    seed: int,
    replications: int,
    with_limit: bool,
    report: Path | None,
    loads: tuple[float, ...],
    form: str,
    **options: Any,
) -> None:
    """Replay traffic through the scheduler in virtual time and compare policies.

    TRACE is recorded traffic, plain or gzipped: a recording of `serve --record`, CSV with the
    header t_seconds,size, a trace of Azure (LLM 2023, functions 2021), Mooncake or DISB, an access
    log, or one time per line.
    """
    if loads and report is None:
        denser = "the table is of more traffic by --rate-scale of a TRACE, --rate or --users"
        raise click.UsageError(f"expected --report with --load, for its curves; {denser}")
    if report is not None:
        _expect_plotting()
        _expect_writable(report)
    number = number_of_workers(options["servers"], workers)
    numbers = (number,) if isinstance(number, int) else number
    expect_worker(options["drifts"], max(numbers))
    contestants = [(policy, each) for each in numbers for policy in policies]
    with policy_errors_told():
        show = _simulated(
            trace,
            options,
            contestants,
            seed,
            replications,
            form,
            with_limit=with_limit,
            report=report,
            loads=loads,
        )
    with writing():
        show()


def _simulated(
    trace: Path | None,
    options: Mapping[str, Any],
    contestants: Sequence[tuple[str, int]],
    seed: int,
    replications: int,
    form: str,
    *,
    with_limit: bool,
    report: Path | None,
    loads: Sequence[float],
) -> Callable[[], None]:
    """Do what was asked for, and return what shows it."""
    try:
        traffic, experiment = conditions(trace, options, seed)
        heading = title(traffic, experiment)
        if replications > 1:
            given = {"limit": with_limit, "report": report}
            expect_none("with --replications", given, "limit", "report")
            seeds = range(seed, seed + replications)
            with progress("replications", replications) as done:
                many = replicate(
                    partial(experiment_of, trace, options), contestants, seeds, done=done
                )
            sure = f"{replications} seeds from {seed}, ± 95 % confidence"
            heading = f"{heading}\n{sure}, change against {many[0].policy}"
            return partial(_show_many, many, traffic, experiment, heading, replications, form)
        heading = f"{heading}, seed {seed}"
        with progress("simulations", len(contestants)) as done:
            rows = [_run(experiment, each, done) for each in contestants]
        workers = tuple(dict.fromkeys(each for _, each in contestants))
        limit = _limit(experiment, workers, traffic) if with_limit else None
        if report is not None:
            _write(report, heading, experiment, rows, contestants, limit, loads)
    except (TraceError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    return partial(_show, rows, traffic, experiment, heading, limit, form)


def _run(experiment: Experiment, contestant: tuple[str, int], done: Callable[[], None]) -> Row:
    row = experiment.run(*contestant)
    done()
    return row


def _limit(experiment: Experiment, workers: tuple[int, ...], traffic: Traffic) -> Limit:
    if len(workers) > 1:
        raise click.UsageError(f"expected one --workers with --limit, got {len(workers)}")
    return limit_of(experiment, workers[0], traffic.poisson_rate)


def _expect_plotting() -> None:
    """Check that figures can be drawn, before anything is simulated."""
    if importlib.util.find_spec("matplotlib") is None:
        hint = "the report is drawn with matplotlib: pip install matplotlib"
        raise click.ClickException(hint)


def _expect_writable(path: Path) -> None:
    """Check that the report can be written, before anything is simulated."""
    place = path if path.exists() else path.parent
    if not os.access(place, os.W_OK):
        reason = "Permission denied" if place.exists() else f"there is no directory {place}"
        raise click.ClickException(f"can't write {path}: {reason}")


def _write(
    path: Path,
    heading: str,
    experiment: Experiment,
    rows: Sequence[Row],
    runs: Sequence[tuple[str, int]],
    limit: Limit | None,
    loads: Sequence[float],
) -> None:
    from adaptive_batching.plots.page import page  # noqa: PLC0415  the extra
    from adaptive_batching.plots.runs import record, sweep  # noqa: PLC0415

    swept = sweep(experiment, runs, loads, with_limit=limit is not None) if loads else ()
    drawn = page(
        heading,
        rows,
        [record(experiment, *run) for run in runs],
        max_latency=experiment.limits.max_latency,
        limit=limit,
        loads=swept,
        mean=_constant_mean(experiment),
    )
    try:
        path.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"can't write {path}: {error.strerror}") from error


def _constant_mean(experiment: Experiment) -> Curve | None:
    """How long batches take on average; None if that depends on more than their size."""
    server = experiment.server
    if not isinstance(server, Server) or server.conditions or server.costs is not None:
        return None
    return server.mean


def _show(
    rows: Sequence[Row],
    traffic: Traffic,
    experiment: Experiment,
    heading: str,
    limit: Limit | None,
    form: str,
) -> None:
    if form == "json":
        facts = {"trace": traffic.facts, "loop_delay": experiment.loop_delay}
        answer: dict[str, Any] = {**facts, "rows": [asdict(row) for row in rows]}
        if limit is not None:
            answer["limit"] = asdict(limit)
        click.echo(json.dumps(answer, indent=2, allow_nan=False))
        return
    if limit is None:
        _print(table(rows, heading))
    else:
        _print(table(rows, f"{heading}\n{limit}", limit.goodput))
    if any(row.keys for row in rows):
        _print(parts_table(rows, "key"))
    if any(row.tenants for row in rows):
        _print(parts_table(rows, "tenant"))


def _show_many(
    rows: Sequence[Replicated],
    traffic: Traffic,
    experiment: Experiment,
    heading: str,
    replications: int,
    form: str,
) -> None:
    if form == "json":
        facts: dict[str, Any] = {"trace": traffic.facts, "loop_delay": experiment.loop_delay}
        facts["replications"] = replications
        answer = {**facts, "rows": [asdict(row) for row in rows]}
        click.echo(json.dumps(answer, indent=2, allow_nan=False))
    else:
        _print(replicated_table(rows, heading))


def _print(drawn: Table) -> None:
    screen().print(drawn)
