"""`adaptive-batching fit`: how long batches take, from a recording of real ones."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich import box
from rich.table import Table

from adaptive_batching.cli.endings import writing
from adaptive_batching.cli.options.parameters import FORMAT
from adaptive_batching.cli.screen import screen
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.fitting.cost_fit import CostFit
from adaptive_batching.simulation.fitting.fit import Fit, Level, fit_recording
from adaptive_batching.simulation.fitting.goodness import Goodness
from adaptive_batching.simulation.fitting.model_file import save_model
from adaptive_batching.simulation.fitting.robust_line import Interval

_MOST_LEVELS = 24  # lines of a table that people read


@click.command("fit")
@click.argument("recorded", type=click.Path(path_type=Path))
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the table and the scatter about it to a file, for --latency-from.",
)
@FORMAT
def command(recorded: Path, *, save: Path | None, form: str) -> None:
    """Learn from RECORDED how long a batch of each size takes, and say how good that is.

    RECORDED is a recording of `serve --record` or of a `Recorder`. Batches that failed as a whole
    are left out, and so are the first two of each power of two, because models compile for new
    shapes.
    """
    try:
        model = fit_recording(recorded)
    except (TraceError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    if save is not None:
        _save(model, save)
    with writing():
        if form == "json":
            answer = {**asdict(model), "options": model.spelling}
            del answer["residuals"]  # as many as batches; --save writes them
            click.echo(json.dumps(answer, indent=2, allow_nan=False))
        else:
            _print(model, recorded, save)


def _save(model: Fit, path: Path) -> None:
    try:
        save_model(model, path)
    except OSError as error:
        raise click.ClickException(f"can't write {path}: {error.strerror}") from error


def _print(model: Fit, recorded: Path, saved: Path | None) -> None:
    console = screen()
    left_out = "the first two of each power of two are left out"
    console.print(
        f"{recorded}: {model.batches:,} of {model.recorded:,} batches ({left_out})", soft_wrap=True
    )
    console.print(f"  fixed     {_interval(model.fixed)}")
    console.print(f"  per item  {_interval(model.per_item)}")
    if model.costs is not None:
        _print_costs(model.costs)
    console.print(f"  of which the event loop is late by {model.loop_delay * 1e3:.3g} ms")
    console.print(_goodness({"line": model.line, "table": model.table}))
    console.print(_levels(model.levels))
    for warning in model.warnings:
        console.print(f"Warning: {warning}")
    console.print(f"simulate with: {model.spelling}", soft_wrap=True)
    if saved is not None:
        console.print(f"or, as it was: --latency-from {saved}{model.padding}", soft_wrap=True)


def _print_costs(costs: CostFit) -> None:
    """Print the third coefficient, and what it is good for."""
    unit = "of its items times the largest cost" if costs.padded else "of the sum of its costs"
    low, high = (f"{each * 1e6:.4g}" for each in (costs.per_cost.low, costs.per_cost.high))
    per_cost = f"{costs.per_cost.value * 1e6:.4g} us (95 of 100: {low} to {high})"
    screen().print(f"  per cost  {per_cost}, for each unit {unit}")
    better = f"{costs.error:.1%} off; by size alone {costs.error_by_size:.1%}"
    screen().print(f"  half of the batches were less than {better}")


def _interval(estimate: Interval) -> str:
    low, high = (f"{each * 1e3:.4g}" for each in (estimate.low, estimate.high))
    return f"{estimate.value * 1e3:.4g} ms (95 of 100: {low} to {high})"


def _goodness(judged: dict[str, Goodness]) -> Table:
    largest = judged["line"].largest
    expected = f"covers (90% \u00b1 {judged['line'].coverage_doubt:.1%})"
    columns = ("error p50", "|error| p95", f"error at {largest}", "margin", expected)
    drawn = _table("On batches that it was not learned from", "model", *columns)
    for name, each in judged.items():
        drawn.add_row(
            name,
            f"{each.error_p50:+.1%}",
            f"{each.error_p95:.1%}",
            f"{each.error_at_largest:+.1%}",
            f"{each.margin:+.1%}",
            f"{each.coverage:.1%}",
        )
    return drawn


def _levels(levels: Sequence[Level]) -> Table:
    step = -(-len(levels) // _MOST_LEVELS)
    shown = [*levels[:-1:step], levels[-1]]
    title = "By batch size" if step == 1 else f"By batch size, {len(shown)} of {len(levels)}"
    drawn = _table(title, "items", "batches", "median ms", "table ms")
    for each in shown:
        cells = (f"{each.median * 1e3:.3f}", f"{each.predicted * 1e3:.3f}")
        drawn.add_row(str(each.size), f"{each.batches:,}", *cells)
    return drawn


def _table(title: str, *columns: str) -> Table:
    drawn = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        drawn.add_column(column, justify="right", no_wrap=True)
    return drawn
