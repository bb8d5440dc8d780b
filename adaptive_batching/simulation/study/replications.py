"""One experiment with several seeds: how sure its figures are.

Each seed makes traffic and luck that all policies meet alike. So the differences between policies
are taken seed by seed, and are known far better than the figures themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
from rich import box
from rich.table import Table

from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.report import Row
from adaptive_batching.simulation.study.seeds import Contestant, each_seed

_CONFIDENCE = 0.95
_COMPARED = ("goodput", "throughput", "mean_latency", "p50_latency", "p99_latency")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over the seeds.

    Attributes:
        mean: Of the seeds that had something to measure.
        half_width: Of its 95 % confidence interval (Student's); None for fewer than two seeds.
    """

    mean: float
    half_width: float | None

    def shown(self, factor: float, style: str) -> str:
        """With its interval, in another unit."""
        mean = format(self.mean * factor, style)
        if self.half_width is None:
            return mean
        half = round(self.half_width * factor, 9)  # or equal seeds have an ulp for an interval
        return f"{mean} ±{half:,.0f}" if half >= 10 else f"{mean} ±{half:.2g}"


@dataclass(frozen=True, slots=True)
class Replicated:
    """One contestant over all seeds.

    Attributes:
        policy: Its name.
        workers: Batches that could run at the same time.
        figures: By the name of a `Row`'s field; None where there was nothing to measure.
        change: Seed by seed against the first policy with as many workers, as a share of its
            figure; empty for that policy itself.
    """

    policy: str
    workers: int
    figures: dict[str, Estimate | None]
    change: dict[str, Estimate | None]


def replicate(
    make: Callable[[int], Experiment],
    contestants: Sequence[Contestant],
    seeds: Sequence[int],
    *,
    done: Callable[[], None] = lambda: None,
) -> list[Replicated]:
    """Run every contestant with every seed and sum up; the arguments are those of `each_seed`."""
    columns = list(zip(*each_seed(make, contestants, seeds, done=done), strict=True))
    return [summed(column, _first(columns, column[0].workers)) for column in columns]


def summed(rows: Sequence[Row], reference: Sequence[Row]) -> Replicated:
    """One contestant's rows, seed by seed, held against another's; no change against itself."""
    figures = {
        field.name: estimate([asdict(row)[field.name] for row in rows])
        for field in fields(Row)
        if field.name not in {"policy", "workers", "keys", "tenants"}
    }
    changes = (
        {} if rows is reference else {name: _change(rows, reference, name) for name in _COMPARED}
    )
    return Replicated(rows[0].policy, rows[0].workers, figures, changes)


def estimate(values: Sequence[float | None]) -> Estimate | None:
    """The mean of what was measured and how sure it is."""
    measured = np.array([value for value in values if value is not None], float)
    if not len(measured):
        return None
    mean, number = float(measured.mean()), len(measured)
    if number < 2:
        return Estimate(mean, None)
    from scipy.special import stdtrit  # noqa: PLC0415  slow to import; a server has no use for it

    error = float(measured.std(ddof=1)) / number**0.5
    return Estimate(mean, float(stdtrit(number - 1, (1 + _CONFIDENCE) / 2)) * error)


def replicated_table(rows: Sequence[Replicated], title: str) -> Table:
    """The rows for people, with their intervals; latencies in milliseconds.

    Failed requests and changes have columns if there are any.
    """
    failing = any((failed := row.figures.get("failed")) and failed.mean for row in rows)
    columns = (*_FIGURES, *(_FAILED if failing else ()))
    if any(row.change for row in rows):
        columns += _CHANGES
    drawn = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("policy", "workers", *(heading for heading, *_ in columns)):
        drawn.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for row in rows:
        cells = []
        for _, group, name, factor, style in columns:
            known = getattr(row, group).get(name)
            cells.append("-" if known is None else known.shown(factor, style))
        drawn.add_row(row.policy, str(row.workers), *cells)
    return drawn


_Column = tuple[str, str, str, float, str]

_FIGURES: tuple[_Column, ...] = (
    ("goodput %", "figures", "goodput", 100, ".2f"),
    ("answers/s", "figures", "throughput", 1, ",.0f"),
    ("mean ms", "figures", "mean_latency", 1e3, ".2f"),
    ("p99 ms", "figures", "p99_latency", 1e3, ".2f"),
    ("batch", "figures", "mean_batch_size", 1, ".1f"),
)
_FAILED: tuple[_Column, ...] = (("failed", "figures", "failed", 1, ",.0f"),)
_CHANGES: tuple[_Column, ...] = (
    ("Δ goodput %", "change", "goodput", 100, "+.2f"),
    ("Δ mean %", "change", "mean_latency", 100, "+.2f"),
    ("Δ p99 %", "change", "p99_latency", 100, "+.2f"),
)


def _first(columns: Sequence[tuple[Row, ...]], workers: int) -> tuple[Row, ...]:
    return next(column for column in columns if column[0].workers == workers)


def _change(rows: Sequence[Row], first: Sequence[Row], name: str) -> Estimate | None:
    shares: list[float | None] = []
    for row, reference in zip(rows, first, strict=True):
        value, base = getattr(row, name), getattr(reference, name)
        shares.append(value / base - 1 if value is not None and base else None)
    return estimate(shares)
