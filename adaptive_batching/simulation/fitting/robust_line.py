"""A line through noisy durations, in spite of pauses, and how sure it is."""

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


def fit_line(sizes: Array, seconds: Array) -> FittedLine:
    """Fit by soft-L1 least squares of relative residuals, neither part below zero.

    Noise grows with the duration, so residuals count relative to the prediction; the soft-L1 loss
    lets a batch that met a pause count little.
    """
    if np.ptp(sizes) == 0:
        return _level(float(sizes[0]), float(np.median(seconds)))
    design = np.column_stack([np.ones_like(sizes), sizes])
    parameters = np.array([np.median(seconds), 0.0])
    for _ in range(_ROUNDS):
        expected = np.maximum(design @ parameters, 1e-9)
        relative, target = design / expected[:, np.newaxis], seconds / expected
        residuals = relative @ parameters - target
        scale = _TUNING * max(_spread(residuals), _QUIETEST)
        parameters = _solve(relative, target, parameters, scale)
    errors = _standard_errors(relative, (relative @ parameters - target) / scale) * scale
    # The solver keeps inside its bounds: what should be nothing is 1e-16 s.
    found = np.where(parameters < _NOTHING, 0.0, parameters)
    return FittedLine(*map(_estimate, found.tolist(), errors.tolist()))


def medians_by_size(sizes: Array, seconds: Array) -> tuple[Array, Counts, Array]:
    """The sizes that occur, how often each does, and the median of its durations (seconds)."""
    used, counts = np.unique(sizes, return_counts=True)
    by_size = np.split(seconds[np.argsort(sizes, kind="stable")], np.cumsum(counts)[:-1])
    return used, counts, np.array([np.median(each) for each in by_size])


def _level(size: float, seconds: float) -> FittedLine:
    """One size says nothing about the slope, but that it is no more than all there is."""
    return FittedLine(Interval(seconds, 0.0, seconds), Interval(0.0, 0.0, seconds / size))


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
