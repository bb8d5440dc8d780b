"""A line, or a plane, through noisy durations, in spite of pauses, and how sure it is."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_ROUNDS = 5  # of weights; they settle after three
_TUNING = 1.345  # of Huber: 95 % as good as least squares if the noise is normal after all
_QUIETEST = 1e-4  # relative noise; no clock is better
_NOTHING = 1e-9  # seconds; no clock tells less
_ALIKE = 1e-6  # of a column: what it has beyond the others is rounding
_SURE = 1.96  # standard deviations of 95 %


@dataclass(frozen=True, slots=True)
class Interval:
    """A number and the interval that holds the true one in 95 cases of 100."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FittedLine:
    """`duration = fixed + per_item * size` (seconds)."""

    fixed: Interval
    per_item: Interval

    def predict(self, sizes: Array) -> Array:
        """Seconds for batches of these sizes."""
        return self.fixed.value + self.per_item.value * sizes


@dataclass(frozen=True, slots=True)
class FittedPlane:
    """`duration = line + per_cost * cost` (seconds)."""

    line: FittedLine
    per_cost: Interval

    def predict(self, sizes: Array, costs: Array) -> Array:
        """Seconds for batches of these sizes that cost so much."""
        return self.line.predict(sizes) + self.per_cost.value * costs


def fit_line(sizes: Array, seconds: Array) -> FittedLine:
    """Fit by soft-L1 least squares of relative residuals, neither part below zero.

    Noise grows with the duration, so residuals count relative to the prediction; the soft-L1 loss
    lets a batch that met a pause count little.
    """
    if np.ptp(sizes) == 0:
        median = float(np.median(seconds))
        return _level(float(sizes[0]), Interval(median, median, median))
    return FittedLine(*_fitted(np.column_stack([np.ones_like(sizes), sizes]), seconds))


def fit_plane(sizes: Array, costs: Array, seconds: Array) -> FittedPlane | None:
    """As `fit_line`, where costs add to the duration; None if they say no more than the sizes."""
    ones = np.ones_like(sizes)
    one_size = np.ptp(sizes) == 0
    design = np.column_stack([ones, costs] if one_size else [ones, sizes, costs])
    scale = np.linalg.norm(design, axis=0)
    if not scale.all() or np.linalg.matrix_rank(design / scale, tol=_ALIKE) < design.shape[1]:
        return None
    fixed, *per_item, per_cost = _fitted(design, seconds)
    line = _level(float(sizes[0]), fixed) if one_size else FittedLine(fixed, *per_item)
    return FittedPlane(line, per_cost)


def _fitted(design: Array, seconds: Array) -> list[Interval]:
    """The factors of the columns, of which the first is 1."""
    parameters = np.zeros(design.shape[1])
    parameters[0] = np.median(seconds)
    for _ in range(_ROUNDS):
        expected = np.maximum(design @ parameters, 1e-9)
        relative, target = design / expected[:, np.newaxis], seconds / expected
        residuals = relative @ parameters - target
        scale = _TUNING * max(_spread(residuals), _QUIETEST)
        parameters = _solve(relative, target, parameters, scale)
    errors = _standard_errors(relative, (relative @ parameters - target) / scale) * scale
    # The solver keeps inside its bounds: what should be nothing is 1e-16 s.
    found = np.where(parameters < _NOTHING, 0.0, parameters)
    return list(map(_estimate, found.tolist(), errors.tolist()))


def medians_by_size(sizes: Array, seconds: Array) -> tuple[Array, Counts, Array]:
    """The sizes that occur, how often each does, and the median of its durations (seconds)."""
    used, counts = np.unique(sizes, return_counts=True)
    by_size = np.split(seconds[np.argsort(sizes, kind="stable")], np.cumsum(counts)[:-1])
    return used, counts, np.array([np.median(each) for each in by_size])


def _level(size: float, taken: Interval) -> FittedLine:
    """One size says nothing about the slope, but that it is no more than all there is."""
    fixed, per_item = Interval(taken.value, 0.0, taken.high), Interval(0.0, 0.0, taken.high / size)
    return FittedLine(fixed, per_item)


def _solve(relative: Array, target: Array, start: Array, scale: float) -> Array:
    solution = least_squares(
        lambda parameters: relative @ parameters - target,
        start,
        jac=lambda _: relative,
        bounds=(0.0, np.inf),
        loss="soft_l1",
        f_scale=scale,
        x_scale="jac",
    )
    found: Array = solution.x
    return found


def _spread(residuals: Array) -> float:
    """The standard deviation that a normal of this median absolute deviation has."""
    return 1.4826 * float(np.median(np.abs(residuals - np.median(residuals))))


def _standard_errors(design: Array, residuals: Array) -> Array:
    """The standard errors of an M-estimator (the sandwich), in units of the scale.

    They are right whatever the noise is.
    """
    squares = 1.0 + residuals**2
    influence, curvature = residuals / np.sqrt(squares), squares**-1.5
    bread = np.linalg.inv(design.T @ (design * curvature[:, np.newaxis]))
    filling = design.T @ (design * (influence**2)[:, np.newaxis])
    errors: Array = np.sqrt(np.diag(bread @ filling @ bread))
    return errors


def _estimate(value: float, error: float) -> Interval:
    return Interval(value, max(0.0, value - _SURE * error), value + _SURE * error)
