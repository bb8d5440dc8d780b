"""Traffic made denser keeps what it promises to keep."""

import math
import re

import numpy as np
import pytest

from adaptive_batching.simulation.traffic.arrivals import poisson
from adaptive_batching.simulation.traffic.shaping import scale_rate, speedup, superpose


def gap_cv(times):
    gaps = np.diff(times)
    return gaps.std() / gaps.mean()


def test_speedup():
    """Times are divided; the irregularity stays."""
    assert speedup(np.array([0.0, 1.0, 4.0]), 2.0).tolist() == [0.0, 0.5, 2.0]


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_speedup(factor):
    """It is positive and finite."""
    with pytest.raises(ValueError, match="speedup: expected a positive number"):
        speedup(np.array([1.0]), factor)


@pytest.mark.parametrize("factor", [1e-300, 1e300, math.nan])
def test_a_speedup_beyond_all_clocks(factor):
    """Would leave one instant, or eternity; the factor is named."""
    with pytest.raises(ValueError, match=re.escape(f"from 1e-09 to 1e+09, got {factor}")):
        speedup(np.array([1e9]), factor)


def test_superposition():
    """Copies start at even distances and come in again at the beginning."""
    times, origins = superpose(np.array([0.0, 1.0, 4.0]), 2)
    assert times.tolist() == [0.0, 1.0, 2.0, 2.0, 3.0, 4.0]
    assert origins.tolist() == [0, 1, 0, 2, 1, 2]


def test_superposition_is_more_like_chance():
    """Gaps that differ wildly become nearly those of a Poisson process."""
    times = np.cumsum(np.random.default_rng(1).lognormal(0.0, 1.5, 5000))
    assert gap_cv(times) > 2.5
    assert gap_cv(superpose(times, 32)[0]) == pytest.approx(1.0, abs=0.1)


def test_superposition_by_one_changes_nothing():
    """To the last bit."""
    times = poisson(100.0, 1.0, seed=1)
    assert superpose(times, 1)[0].tolist() == times.tolist()
    assert scale_rate(times, 1.0)[0].tolist() == times.tolist()


@pytest.mark.parametrize("factor", [0.3, 1.5, 4.0])
def test_scaling_the_rate(factor):
    """So many times the requests on the same clock, in order, each near the one it comes from."""
    times = poisson(1000.0, 10.0, seed=1)
    scaled, origins = scale_rate(times, factor, seed=2)
    assert len(scaled) == pytest.approx(factor * len(times), rel=0.05)
    assert (np.diff(scaled) >= 0).all()
    assert (scaled <= times[-1]).all()
    assert (scaled >= times[origins]).all()
    assert scaled.tolist() == scale_rate(times, factor, seed=2)[0].tolist()


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_impossible_scales(factor):
    """Positive, and not so large that it fills the memory."""
    with pytest.raises(ValueError, match="rate-scale: expected a positive number"):
        scale_rate(np.zeros(5), factor)


@pytest.mark.parametrize("copies", [0, -1, 10**9])
def test_impossible_copies(copies):
    """One at least, and not so many that they fill the memory."""
    with pytest.raises(ValueError, match="superpose: expected 1 copy or more"):
        superpose(np.zeros(5), copies)


def test_nothing_to_shape():
    """No requests stay none."""
    assert len(superpose(np.array([]), 3)[0]) == len(scale_rate(np.array([]), 3.0)[0]) == 0
