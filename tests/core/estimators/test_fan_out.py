"""Clumps of callers that fan out."""

from random import Random

import pytest

from adaptive_batching.core.estimators.fan_out import FanOut

GAP = 1e-4  # seconds within a clump of eight
APART = 50e-3  # seconds between clumps
LONGEST = 1e-3
RATE = 8 / (APART + 7 * GAP)


def after(come: int) -> FanOut:
    """A hundred clumps, and so many of the next."""
    fan_out = FanOut()
    for _ in range(100):
        fan_out.learn([APART, *[GAP] * 7], LONGEST)
    fan_out.learn([APART, *[GAP] * (come - 1)], LONGEST)
    return fan_out


def test_clumps_are_recognised() -> None:
    """Gaps far below what the rate says are clumps."""
    assert after(1).recognised(2 * RATE)


def test_even_traffic_is_no_clump() -> None:
    """One at a time, or all the time: neither is a clump."""
    apart, dense = FanOut(), FanOut()
    for _ in range(100):
        apart.learn([APART], LONGEST)
        dense.learn([GAP], LONGEST)
    assert not apart.recognised(2 / APART)
    assert not dense.recognised(2 / GAP)


def test_independent_arrivals_show_the_rate_that_they_have() -> None:
    """Gaps cut short looked like clumps of twice the rate, where few silences are short."""
    random, fan_out = Random(1), FanOut()
    for _ in range(100):
        fan_out.learn([random.expovariate(1 / APART) for _ in range(32)], APART / 2)
    assert not fan_out.recognised(1.5 / APART)
    assert fan_out.recognised(0.6 / APART)


@pytest.mark.parametrize("come", [1, 4, 7])
def test_the_rest_of_a_clump_is_worth_a_silence(come: int) -> None:
    """While some are still to come, a silence of a few gaps is waited out."""
    assert 2 * GAP < after(come).worth(come, 4e-3, 0.0) < 10 * GAP


def test_a_clump_that_is_all_here_is_not_waited_for() -> None:
    """Eight of eight have come: a silence is its end."""
    assert after(8).worth(8, 4e-3, 0.0) == 0


def test_a_clump_that_outgrows_all_before_is_taken_to_be_like_them() -> None:
    """Bursts of any length are parted by their gaps: nothing says that this one is all here."""
    fan_out = FanOut()
    for size in (20, 30, 40, 50):
        fan_out.learn([APART, *[GAP] * (size - 1)], LONGEST)
    assert fan_out.worth(50, 20e-3, 0.0) > 2 * GAP


@pytest.mark.parametrize("come", [1, 4, 7, 8])
def test_how_many_are_still_to_come(come: int) -> None:
    """Of clumps of eight, seven follow the first, and none the last."""
    assert not after(come).outgrows(8 - come)
    assert come == 8 or after(come).outgrows(7 - come)


def test_dear_waits_are_shorter() -> None:
    """The more wait, the shorter a silence is worth it."""
    fan_out = after(6)
    assert (
        fan_out.worth(1, 4e-3, 0.0)
        > fan_out.worth(6, 4e-3, 0.0)
        > fan_out.worth(100, 4e-3, 0.0)
        == 0
    )


def test_a_coarse_timer_is_not_waited_for_unless_another_is_likely() -> None:
    """Where silence is not noticed sooner, all that wait pay: the odds have to be worth it."""
    timer = 1e-3
    assert after(8).worth(8, 4e-3, timer) == 0
    assert after(4).worth(4, 4e-3, timer) == after(4).worth(4, 4e-3, 0.0) > 0
    assert after(4).worth(400, 40e-3, timer) == 0


def test_clumps_of_any_length_are_told_from_their_ends() -> None:
    """Two hundred that come together again and again are all here when the last has come."""
    fan_out = FanOut()
    for _ in range(100):
        fan_out.learn([APART, *[GAP] * 199], LONGEST)
    assert fan_out.worth(200, 20e-3, 0.0) == 0
    fan_out.learn([APART, *[GAP] * 149], LONGEST)
    assert fan_out.worth(150, 20e-3, 0.0) > 0


def test_before_any_clump_nothing_is_waited_for() -> None:
    """What was never seen is not expected."""
    fan_out = FanOut()
    assert fan_out.worth(1, 4e-3, 0.0) == 0
    assert not fan_out.recognised(2 * RATE)


def test_the_running_sums_are_those_of_the_counts() -> None:
    """Halved a thousand times over, they are still what counting anew would give."""
    fan_out = FanOut()
    for clump in range(5000):
        fan_out.learn([APART, *[GAP] * (clump % 7)], LONGEST)
    followed, ended = sum(fan_out._followed), sum(fan_out._ended)
    assert fan_out._all == pytest.approx(followed + ended)
    assert fan_out._all_ended == pytest.approx(ended)


def test_callers_that_fan_out_less_than_before_are_believed() -> None:
    """After a thousand clumps of eight, two hundred of four are enough: a fifth is not expected."""
    fan_out = FanOut()
    for _ in range(1000):
        fan_out.learn([APART, *[GAP] * 7], LONGEST)
    for _ in range(200):
        fan_out.learn([APART, *[GAP] * 3], LONGEST)
    fan_out.learn([APART, *[GAP] * 3], LONGEST)
    assert fan_out.worth(4, 4e-3, 0.0) == 0
