"""How long batches took, as a model: offline, where all of them can be looked at together."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import numpy as np
from scipy.optimize import isotonic_regression

from adaptive_batching.core.allowed import next_allowed
from adaptive_batching.core.estimators.steps import Steps, find_steps
from adaptive_batching.simulation.fitting.cost_fit import (
    ByCost,
    CostFit,
    costs_are_unknown,
    fit_costs,
)
from adaptive_batching.simulation.fitting.goodness import Goodness, judged
from adaptive_batching.simulation.fitting.loop_delay import loop_delay as loop_delay_of
from adaptive_batching.simulation.fitting.robust_line import (
    Array,
    FittedLine,
    Interval,
    fit_line,
    medians_by_size,
)
from adaptive_batching.simulation.traffic.traces.recording import recorded_batches

_LOOKED_AT = 2_048  # batches, for steps
_FEWEST = 20  # batches: less is an anecdote
_WARM_AFTER = 2  # batches of each bucket of sizes, which is what just-in-time compilers see
_SHRINKAGE = 4.0  # batches of one size that count as much as the line
_PAUSE = 4.0  # standard deviations beyond which a batch met a pause of the machine
_QUIETEST = 1e-3  # relative noise; what a clock's ticks are is no pause
_SHORTEST = 1e-9  # seconds; what is shorter is no time that a clock can tell
_OFF = 0.1  # relative error at which a line is not the model
_UNKNOWN_COSTS = (
    "costs of batches hardly varied beyond their sizes, or batches are few: what a unit of cost "
    "takes is not known, nor the time of batches that cost more or less"
)
_DRIFT = 0.05  # of the median, from the first quarter of the batches to the last


@dataclass(frozen=True, slots=True)
class Level:
    """All batches of one size.

    Attributes:
        size: Items.
        batches: How many.
        median: Seconds that they took.
        predicted: Seconds by the table: the median, the less trusted the fewer there are, and never
            below that of a smaller size.
    """

    size: int
    batches: int
    median: float
    predicted: float


@dataclass(frozen=True, slots=True)
class Fit:
    """A latency model of recorded batches: `duration = fixed + per_item * size`, and a table.

    Where items cost differently, both are about what batches take without `per_cost * cost`.

    Attributes:
        batches: What it was learned from.
        recorded: Batches with those that were left out.
        fixed: Seconds that any batch takes.
        per_item: Seconds that each item adds.
        levels: The table beside the line, by size.
        jitter: Sigma of the lognormal noise around the table.
        pause_probability: Share of the batches that met a pause of the machine.
        pause: What such a batch took longer, on average (seconds).
        residuals: What each batch took longer than by the table, in order of time (seconds).
        line: How good the line is, on batches that it was not learned from.
        table: How good the table is, likewise.
        warnings: What makes the model less than trustworthy.
        loop_delay: How late the event loop noticed what happened (seconds). It is in the durations,
            which were measured until the loop had noticed an end.
        costs: What the costs of items add; None if there are none, or if they say no more than the
            sizes.
        sizes: Sizes to declare, because the newest batches seem to be padded to these; else empty.
            Where items cost differently, line and table are about batches of these sizes.
    """

    batches: int
    recorded: int
    fixed: Interval
    per_item: Interval
    levels: list[Level]
    jitter: float
    pause_probability: float
    pause: float
    residuals: list[float]
    line: Goodness
    table: Goodness
    warnings: list[str]
    loop_delay: float
    costs: CostFit | None = None
    sizes: tuple[int, ...] = ()

    @property
    def spelling(self) -> str:
        """The options that make `simulate` use it: the line, or the table where a line is wrong."""
        options = f"--latency {self._by_sizes if self.curved else self._by_item}"
        if self.costs is not None:
            options += f"+{self.costs.per_cost.value * 1e6:.4g}us/unit"
            options += " --padded" if self.costs.padded else " --no-padded"
            options += self.padding
        if self.jitter >= 1e-3:
            options += f" --jitter {self.jitter:.3f}"
        if self.pause_probability:
            options += f" --pause {self.pause_probability * 100:.4f}%:{self.pause * 1e3:.3g}ms"
        return f"{options} --loop-delay {self.loop_delay * 1e3:.3g}ms"

    @property
    def pad_to(self) -> str:
        """The option that makes `simulate` fill batches up, where the model is about full ones."""
        said = ",".join(map(str, self.sizes)) if self.costs is not None else ""
        return f" --pad-to {said}" if said else ""

    @property
    def padding(self) -> str:
        """The options for that and hidden sizes: no recording says that they were declared."""
        return f"{self.pad_to} --hide-sizes" if self.pad_to else ""

    @property
    def curved(self) -> bool:
        """Whether a line is off where the table is not."""
        return self.line.error_p95 > max(_OFF, self.table.error_p95)

    @property
    def _by_item(self) -> str:
        return f"{self._ended(self.fixed.value)}+{self.per_item.value * 1e3:.4g}ms"

    @property
    def _by_sizes(self) -> str:
        return ",".join(f"{each.size}:{self._ended(each.predicted)}" for each in self.levels)

    def _ended(self, seconds: float) -> str:
        """Until the end of a batch, which the loop notices later."""
        return f"{max(0.0, seconds - self.loop_delay) * 1e3:.4g}ms"


def fit_recording(path: str | Path) -> Fit:
    """Learn a model from what `--record` wrote.

    Raises:
        TraceError: It is no recording, or damaged.
        ValueError: It has too few batches.
    """
    batches = list(recorded_batches(path))
    costs = [(each.cost, each.largest) for each in batches]
    try:
        return fit([(each.size, each.duration) for each in batches], loop_delay_of(batches), costs)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def fit(
    batches: Iterable[tuple[int, float]],
    loop_delay: float = 0.0,
    costs: Iterable[tuple[float, float]] | None = None,
) -> Fit:
    """Learn a model from pairs of size (items) and duration (seconds), in order of time.

    The first two batches of each power of two are left out: models compile for new shapes.

    Args:
        batches: The pairs.
        loop_delay: What the event loop added to each duration (seconds).
        costs: Of each batch, what its items cost together and the largest of their costs; None if
            they have none.

    Raises:
        ValueError: There are too few.
    """
    known = list(batches)
    recorded = _warm(known, repeat((0.0, 0.0)) if costs is None else costs)
    if len(recorded) < _FEWEST:
        counted = "that took some time, the first two of each power of two not counted"
        raise ValueError(f"expected {_FEWEST} batches or more {counted}, got {len(recorded)}")
    sizes, seconds, sums, largest = np.array(recorded, float).T
    by_cost = fit_costs(sizes, sums, largest, seconds)
    unknown = by_cost is None and costs_are_unknown(sizes, sums, largest, seconds, _OFF)
    steps = _steps(sizes, seconds, by_cost)
    if by_cost is not None and steps is not None:
        run = np.array([next_allowed(steps.sizes, int(size)) for size in sizes], float)
        filled = fit_costs(run, sums * run / sizes, largest, seconds)
        if filled is None or filled.told.error >= by_cost.told.error:
            steps = None
        else:
            sizes, by_cost = run, filled
    more = np.zeros_like(seconds) if by_cost is None else by_cost.seconds
    line = fit_line(sizes, seconds) if by_cost is None else by_cost.plane.line
    levels = _levels(sizes, seconds - more, line)
    expected = _by_table(levels, line, sizes) + more
    ratios = _ratios(seconds, expected)
    jitter, share, pause = _noise(ratios, seconds)
    by_line, by_table = _held_out(sizes, seconds, by_cost)
    return Fit(
        batches=len(recorded),
        recorded=len(known),
        fixed=line.fixed,
        per_item=line.per_item,
        levels=levels,
        jitter=jitter,
        pause_probability=share,
        pause=pause,
        residuals=(seconds - expected).tolist(),
        line=by_line,
        table=by_table,
        warnings=[
            *_warnings(line, by_line, ratios, jitter),
            *([_UNKNOWN_COSTS] * unknown),
            *_advice(steps),
        ],
        loop_delay=loop_delay,
        costs=None if by_cost is None else by_cost.told,
        sizes=() if steps is None else steps.sizes,
    )


def _steps(sizes: Array, seconds: Array, by_cost: ByCost | None) -> Steps | None:
    """The steps that the newest batches form, of a usual cost if their items have costs."""
    if by_cost is not None:
        each = by_cost.costs / sizes
        seconds = (seconds - by_cost.plane.line.fixed.value) / np.maximum(each, _SHORTEST)
        sizes, seconds = sizes[each > 0], seconds[each > 0]
    batches = zip(sizes.tolist(), seconds.tolist(), strict=True)
    newest = [(int(size), taken) for size, taken in batches if taken > 0][-_LOOKED_AT:]
    return find_steps(newest) if len(newest) >= _FEWEST else None


def _advice(steps: Steps | None) -> Iterable[str]:
    if steps is not None:
        yield f"{steps}: declare {steps.setting}, unless they are declared"


def _held_out(sizes: Array, seconds: Array, by_cost: ByCost | None) -> tuple[Goodness, Goodness]:
    """The line and the table, learned from every other batch and judged by the rest.

    Neighbours share the weather.
    """
    more = np.zeros_like(seconds)
    if by_cost is None:
        half = fit_line(sizes[::2], seconds[::2])
    else:
        half, more = by_cost.half.line, by_cost.half.per_cost.value * by_cost.costs
    steps = _levels(sizes[::2], (seconds - more)[::2], half)
    by_line = _ratios(seconds, half.predict(sizes) + more)
    by_table = _ratios(seconds, _by_table(steps, half, sizes) + more)
    kept = sizes[1::2]
    return judged(kept, by_line[::2], by_line[1::2]), judged(kept, by_table[::2], by_table[1::2])


def _ratios(seconds: Array, expected: Array) -> Array:
    ratios: Array = seconds / np.maximum(expected, _SHORTEST)  # nothing but cost may be free
    return ratios


def _warm(
    batches: list[tuple[int, float]], costs: Iterable[tuple[float, float]]
) -> list[tuple[float, ...]]:
    seen: Counter[int] = Counter()
    warm: list[tuple[float, ...]] = []
    for (size, duration), cost in zip(batches, costs, strict=False):
        seen[size.bit_length()] += 1
        if seen[size.bit_length()] > _WARM_AFTER and duration >= _SHORTEST:
            warm.append((size, duration, *cost))
    return warm


def _levels(sizes: Array, seconds: Array, line: FittedLine) -> list[Level]:
    used, counts, medians = medians_by_size(sizes, seconds)
    trust = counts / (counts + _SHRINKAGE)
    shrunk = trust * medians + (1 - trust) * line.predict(used)
    rising = np.maximum(isotonic_regression(shrunk, weights=counts.astype(float)).x, 0.0)
    columns = (each.tolist() for each in (used.astype(int), counts, medians, rising))
    return [Level(*row) for row in zip(*columns, strict=True)]


def _by_table(levels: list[Level], line: FittedLine, sizes: Array) -> Array:
    """The table's prediction, straight between its sizes, and beyond the last with the slope."""
    known = [level.size for level in levels]
    beyond = np.maximum(sizes - known[-1], 0.0) * line.per_item.value
    inside: Array = np.interp(sizes, known, [level.predicted for level in levels])
    return inside + beyond


def _noise(ratios: Array, seconds: Array) -> tuple[float, float, float]:
    """Sigma of the lognormal noise, the share of batches beyond it, and their excess (seconds)."""
    logs = np.log(ratios)
    sigma = 1.4826 * float(np.median(np.abs(logs - np.median(logs))))
    paused = logs > _PAUSE * max(sigma, _QUIETEST)
    if not paused.any():
        return sigma, 0.0, 0.0
    excess = (seconds - seconds / ratios)[paused]
    return sigma, float(paused.mean()), float(excess.mean())


def _warnings(line: FittedLine, by_line: Goodness, ratios: Array, jitter: float) -> Iterable[str]:
    slope = line.per_item
    if slope.high - slope.low > max(slope.value, line.fixed.value / 100):
        yield "batch sizes hardly varied: what an item adds is not known, nor larger batches' time"
    if by_line.error_p95 > _OFF:
        yield f"a line is off by {by_line.error_p95:.0%} at some of the sizes used: see the table"
    quarter = len(ratios) // 4
    drift = float(np.median(ratios[-quarter:]) / np.median(ratios[:quarter])) - 1
    chance = 1.25 * jitter * (2 / quarter) ** 0.5  # a median is 1.25 times as unsure as a mean
    if abs(drift) > max(_DRIFT, 3 * chance):
        yield f"the model changed: {drift:+.0%} from the first quarter of the batches to the last"
