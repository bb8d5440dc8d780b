"""A comparison, for people and for programs."""

from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from adaptive_batching.replay.fidelity import Comparison
from adaptive_batching.replay.overhead import Overhead
from adaptive_batching.units import format_duration

_FIGURES = {
    "mean latency, ms": ("mean_latency", 1e3),
    "p50 latency, ms": ("p50_latency", 1e3),
    "p99 latency, ms": ("p99_latency", 1e3),
    "goodput, %": ("goodput", 1e2),
    "mean batch size": ("mean_batch_size", 1.0),
}


def as_json(comparison: Comparison) -> dict[str, Any]:
    """For programs; durations in seconds, differences relative to what was measured."""
    return {
        "measured": asdict(comparison.measured),
        "simulated": asdict(comparison.simulated),
        "difference": {name: _difference(comparison, name) for name, _ in _FIGURES.values()},
        "overhead": _overhead(comparison.overhead),
        "generator_lag_p99": comparison.lag,
    }


def as_text(comparison: Comparison, title: str) -> Group:
    """For people."""
    drawn = Table(box=box.SIMPLE_HEAD)
    drawn.add_column("")
    for name in ("measured", "simulated", "difference"):
        drawn.add_column(name, justify="right")
    for heading, (name, factor) in _FIGURES.items():
        values = [getattr(row, name) for row in (comparison.measured, comparison.simulated)]
        cells = ["-" if value is None else f"{value * factor:.2f}" for value in values]
        more = _difference(comparison, name)
        drawn.add_row(heading, *cells, "-" if more is None else f"{more:+.1%}")
    return Group(Text(title), drawn, Text(_told(comparison.overhead, comparison.lag)))


def _difference(comparison: Comparison, name: str) -> float | None:
    """How much more was simulated than measured, relative."""
    measured, simulated = getattr(comparison.measured, name), getattr(comparison.simulated, name)
    return simulated / measured - 1.0 if measured and simulated is not None else None


def _overhead(overhead: Overhead) -> dict[str, float]:
    """Without the samples, of which there are thousands."""
    names = ("fixed", "per_item", "scatter", "request", "timer_resolution")
    return {name: getattr(overhead, name) for name in names}


def _told(overhead: Overhead, lag: float) -> str:
    line = f"{format_duration(overhead.fixed)} + {format_duration(overhead.per_item)} * n"
    more, resolution = format_duration(overhead.request), format_duration(overhead.timer_resolution)
    return (
        f"The simulation was told what was measured: a batch takes {line}"
        f" (scatter {format_duration(overhead.scatter)}), a request {more} more on average,"
        f" timers come at multiples of {resolution}.\n"
        f"The generator was late by up to {format_duration(lag)} (p99),"
        " which is in the latencies of both."
    )
