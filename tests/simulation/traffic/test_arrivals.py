"""Made traffic has the statistics that it promises."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.simulation.traffic.arrivals import GENERATORS, clumped, mmpp, poisson


def gap_cv(times):
    gaps = np.diff(times)
    return gaps.std() / gaps.mean()


@given(
    kind=st.sampled_from(sorted(GENERATORS)),
    rate=st.floats(0.01, 500),
    duration=st.floats(0.01, 20),
    seed=st.integers(0, 2**63),
)
def test_times_are_in_order_and_in_range(kind, rate, duration, seed):
    """From 0 until the duration, the same for the same seed; an empty stretch is no fault."""
    times = GENERATORS[kind](rate, duration, seed=seed)
    assert (np.diff(times) >= 0).all()
    assert ((times >= 0) & (times <= duration)).all()
    assert times.tolist() == GENERATORS[kind](rate, duration, seed=seed).tolist()


@pytest.mark.parametrize("kind", sorted(GENERATORS))
def test_the_mean_rate(kind):
    """Over a minute, each brings what was asked for."""
    times = GENERATORS[kind](1000.0, 100.0, seed=5)
    assert len(times) == pytest.approx(100_000, rel=0.1)


@pytest.mark.parametrize("kind", sorted(GENERATORS))
def test_another_seed(kind):
    """Another seed makes other traffic."""
    one, other = (GENERATORS[kind](100.0, 1.0, seed=seed) for seed in (1, 2))
    assert one.tolist() != other.tolist()


def test_poisson_gaps():
    """Their coefficient of variation is 1."""
    assert gap_cv(poisson(1000.0, 50.0, seed=1)) == pytest.approx(1.0, abs=0.02)


def test_clumps():
    """Eight requests within a millisecond, then nothing for long."""
    times = clumped(8.0, 100.0, seed=1)
    assert len(times) % 8 == 0
    alone = times.reshape(-1, 8)[:20]
    assert np.median(alone[:, -1] - alone[:, 0]) < 1e-3
    assert gap_cv(times) > 2


def test_a_switching_process_bursts():
    """Counts in 0.1 s vary far more than those of a Poisson process, whose ratio is 1."""
    counts = np.bincount((mmpp(1000.0, 50.0, seed=1) / 0.1).astype(int))
    assert counts.var() / counts.mean() > 20


def test_a_switching_process_of_ones_own():
    """Silent while quiet: only busy spells bring requests."""
    times = mmpp(1.0, 100.0, seed=1, rates=(0.0, 1000.0), sojourns=(1.0, 1.0))
    assert len(times) == pytest.approx(50_000, rel=0.3)
    assert np.diff(times).max() > 1.0


@pytest.mark.parametrize("kind", sorted(GENERATORS))
@pytest.mark.parametrize("value", [0.0, -1.0, nan, inf])
def test_impossible_numbers(kind, value):
    """Rates and durations are positive."""
    with pytest.raises(ValueError, match="rate: expected a positive number"):
        GENERATORS[kind](value, 1.0, seed=0)
    with pytest.raises(ValueError, match="duration: expected a positive number"):
        GENERATORS[kind](1.0, value, seed=0)


def test_too_much():
    """A slip in a unit fails before it fills the memory."""
    with pytest.raises(ValueError, match=r"expected at most 1e\+08 requests"):
        poisson(1e9, 10.0, seed=0)


def test_impossible_spells_and_clumps():
    """Named with what was expected."""
    with pytest.raises(ValueError, match="mmpp: expected rates of 0 or more"):
        mmpp(1.0, 1.0, seed=0, rates=(-1.0, 1.0))
    with pytest.raises(ValueError, match="mmpp: expected rates of 0 or more"):
        mmpp(1.0, 1.0, seed=0, sojourns=(0.0, 1.0))
    with pytest.raises(ValueError, match="clumped: expected 1 or more"):
        clumped(1.0, 1.0, seed=0, clump=0)
