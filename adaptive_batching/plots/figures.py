"""The figures of a report, as SVG that takes its colours from the page around it."""

import re
from collections.abc import Callable, Sequence
from io import StringIO
from math import ceil
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from adaptive_batching.core import BatchRecord, JobOutcome
from adaptive_batching.plots.runs import Load, PolicyRun
from adaptive_batching.simulation.servers.curves import Curve
from adaptive_batching.simulation.traffic.arrivals import Times

_INK, _GRID, _LIMIT = "#010203", "#040506", "#070809"  # replaced by what the page says
_COLORS = (
    "#3b82c4", "#d9772b", "#2f9e6e", "#b8559b", "#8a6fd1", "#a38a1c", "#c0504d", "#5f8a8b",
)  # fmt: skip
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))  # to tell them in grey
_LEGEND = 66  # characters that fit below a figure, its signs as six
_MOST_POINTS = 600  # a figure: more only make the page heavy
_STYLE: Any = {  # matplotlib's own type lists every name of its settings
    "axes.edgecolor": _GRID,
    "axes.grid": True,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "font.size": 9,
    "grid.color": _GRID,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",  # text stays text: small, sharp and found by a search
    "svg.hashsalt": "adaptive_batching",
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def goodput_by_load(loads: Sequence[Load], names: Sequence[str]) -> str:
    """Share of the requests answered in time, and the limit that no policy beats."""

    def draw(axes: Axes) -> None:
        rates = [load.rate for load in loads]
        for index, name in enumerate(names):
            shares = [_percent(load.rows[index].goodput) for load in loads]
            axes.plot(rates, shares, marker="o", markersize=3, label=name, **_line(index))
        limits = [_percent(load.limit.goodput) for load in loads if load.limit is not None]
        if limits:
            axes.plot(rates, limits, color=_LIMIT, linewidth=1, linestyle="--", label="limit")
        axes.set(ylim=(0, 104), xlabel="requests per second", ylabel="% in time")

    return _svg("Goodput by load", draw)


def latency_by_load(loads: Sequence[Load], names: Sequence[str]) -> str:
    """The mean, and the 99th percentile above it."""

    def draw(axes: Axes) -> None:
        rates = [load.rate for load in loads]
        for index, name in enumerate(names):
            means = [_ms(load.rows[index].mean_latency) for load in loads]
            tails = [_ms(load.rows[index].p99_latency) for load in loads]
            axes.plot(rates, means, marker="o", markersize=3, label=name, **_line(index))
            axes.plot(rates, tails, marker="^", markersize=3, alpha=0.6, **_line(index))
        axes.set(xlabel="requests per second", ylabel="ms, of those answered", yscale="log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())

    return _svg("Latency by load: mean (dots) and p99 (triangles)", draw)


def latencies(runs: Sequence[PolicyRun], max_latency: float) -> str:
    """Which share was answered within how long."""

    def draw(axes: Axes) -> None:
        longest = 0.0
        for index, run in enumerate(runs):
            done = [job.latency for job in run.history.jobs if job.outcome is JobOutcome.DONE]
            if done:
                longest = max(longest, _cumulated(axes, done, run.name, index))
        if max_latency <= 2 * longest / 1e3:
            axes.axvline(max_latency * 1e3, color=_LIMIT, linewidth=1, linestyle="--")
        axes.set(ylim=(0, 101), xlabel="ms from arrival to answer", ylabel="% of those answered")

    return _svg("Latency", draw)


def gaps(runs: Sequence[PolicyRun]) -> str:
    """How evenly the batches leave: a step is a clock, a slow curve is chance or bunching."""

    def draw(axes: Axes) -> None:
        for index, run in enumerate(runs):
            released = np.sort([batch.released for batch in run.history.batches])
            if len(released) > 1:
                _cumulated(axes, np.diff(released), run.name, index)
        axes.set(ylim=(0, 101), xlabel="ms between two releases", ylabel="% of the gaps")

    return _svg("Gaps between releases", draw)


def batch_sizes(runs: Sequence[PolicyRun]) -> str:
    """Items in each batch, over time."""

    def draw(axes: Axes) -> None:
        for index, run in enumerate(runs):
            batches = _some(run.history.batches, _MOST_POINTS // len(runs))
            times, sizes = [each.released for each in batches], [each.size for each in batches]
            color = _COLORS[index % len(_COLORS)]
            axes.plot(times, sizes, ".", markersize=3, alpha=0.7, color=color, label=run.name)
        axes.set(xlabel="seconds", ylabel="items")
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))

    return _svg("Batch sizes", draw)


def durations(runs: Sequence[PolicyRun], mean: Curve | None) -> str:
    """What the schedulers learned of the workers, against the batches that they learned it from.

    Args:
        runs: Each with its line as it was in the end.
        mean: Seconds by size that the workers take in truth; None if there is no single curve.
    """

    def draw(axes: Axes) -> None:
        batches = [batch for run in runs for batch in run.history.batches]
        sizes = np.unique(
            np.linspace(1, max((each.size for each in batches), default=1), 60, dtype=int)
        )
        for index, run in enumerate(runs):
            some = _some(run.history.batches, _MOST_POINTS // len(runs))
            spent = [_ms(each.duration) for each in some]
            line = _line(index)
            axes.plot(
                [each.size for each in some],
                spent,
                ".",
                markersize=3,
                alpha=0.3,
                color=line["color"],
            )
            axes.plot(
                sizes, [_ms(run.learned.predict(size)) for size in sizes], label=run.name, **line
            )
        if mean is not None:
            truth = [_ms(mean(int(size))) for size in sizes]
            axes.plot(sizes, truth, color=_LIMIT, linewidth=1, linestyle="--", label="true mean")
        axes.set(xlabel="items", ylabel="ms")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))

    return _svg("Duration of a batch: learned line and samples", draw)


def queues(runs: Sequence[PolicyRun]) -> str:
    """Items that waited when a batch left, those it took among them."""

    def draw(axes: Axes) -> None:
        for index, run in enumerate(runs):
            times, means, peaks = _binned(run)
            line = _line(index)
            axes.plot(times, means, label=run.name, **line)
            axes.fill_between(times, means, peaks, alpha=0.2, color=line["color"], linewidth=0)
        axes.set(xlabel="seconds", ylabel="items")
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))

    return _svg("Queue when a batch leaves: mean and peak", draw)


def _cumulated(axes: Axes, seconds: Sequence[float] | Times, name: str, index: int) -> float:
    """Draw the distribution up to the 99.9th percentile, and return that in milliseconds."""
    shares = np.concatenate([np.linspace(0, 99, 150), np.linspace(99.05, 99.9, 18)])
    values = np.percentile(np.asarray(seconds) * 1e3, shares)
    axes.plot(values, shares, label=name, **_line(index))
    return float(values[-1])


def _binned(run: PolicyRun) -> tuple[Times, Times, Times]:
    """Mean and peak of the queue over stretches of equally many batches."""
    batches = run.history.batches
    waiting = np.array([batch.left_waiting + batch.size for batch in batches], float)
    times = np.array([batch.released for batch in batches])
    parts = np.array_split(np.arange(len(batches)), max(1, min(100, len(batches))))
    parts = [part for part in parts if len(part)]
    return (
        np.array([times[part].mean() for part in parts]),
        np.array([waiting[part].mean() for part in parts]),
        np.array([waiting[part].max() for part in parts]),
    )


def _svg(title: str, draw: Callable[[Axes], None]) -> str:
    with mpl.rc_context(_STYLE):
        figure = Figure(layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.set_title(title)
        names = axes.get_legend_handles_labels()[1]
        across = min(3, max(1, _LEGEND // (max(map(len, names), default=0) + 6)))
        figure.set_size_inches(4.4, 3.1 + 0.17 * (len(names) / across - 1))
        if names:
            figure.legend(loc="outside lower center", ncols=across)
        drawn = StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    return _inline(drawn.getvalue(), title)


def _inline(svg: str, title: str) -> str:
    """Only what a page needs: no document type, no metadata, no names that every figure has."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    head = rf'<svg \1 role="img" aria-label="{title}">'
    svg = re.sub(r"<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>", head, svg)
    svg = svg.replace("xlink:href", "href")
    for placeholder, colour in ((_INK, "ink"), (_GRID, "grid"), (_LIMIT, "limit")):
        svg = svg.replace(placeholder, f"var(--{colour})")
    return svg


def _line(index: int) -> dict[str, Any]:
    return {
        "color": _COLORS[index % len(_COLORS)],
        "linestyle": _DASHES[index % len(_DASHES)],
        "linewidth": 1.5,
    }


def _some(batches: Sequence[BatchRecord], most: int) -> Sequence[BatchRecord]:
    return batches[:: max(1, ceil(len(batches) / most))]


def _percent(share: float | None) -> float:
    return np.nan if share is None else share * 1e2


def _ms(seconds: float | None) -> float:
    return np.nan if seconds is None else seconds * 1e3
