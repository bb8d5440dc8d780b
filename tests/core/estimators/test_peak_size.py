"""From which size on do larger batches answer fewer items a second?"""

from collections.abc import Callable
from math import inf

import pytest

from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.estimators.peak_size import PeakSize


def bent(size: int) -> float:
    """A millisecond, 40 us an item up to 14 of them, and 330 us for each beyond."""
    return 1e-3 + 0.04e-3 * min(size, 14) + 0.33e-3 * max(0, size - 14)


def seen(sizes: list[int], times: int) -> PeakSize:
    """So many batches of each size."""
    peak = PeakSize()
    for _ in range(times):
        for size in sizes:
            peak.observe(size, bent(size))
    return peak


def test_batches_are_filled_up_to_the_knee() -> None:
    """The least size that is known to be worse than a smaller one is too large."""
    assert seen([4, 8, 12, 16, 24, 32], 12).limit == 14


def test_what_is_not_known_is_not_too_large() -> None:
    """A single size says nothing of others, nor do five batches of a larger one, nor the first."""
    assert seen([32], 100).limit == inf
    assert seen([12, 32], 5).limit == inf
    assert seen([12, *range(16, 65, 4)], 1).limit == inf
    assert seen([12, 48], 12).limit == 40


def test_a_size_that_ran_once_is_too_large_if_larger_ones_are() -> None:
    """Few sizes run more than once while a knee is found: their evidence adds up."""
    peak = seen([12, 48], 12)
    peak.observe(36, bent(36))
    for _ in range(8):
        peak.observe(12, bent(12))
    assert peak.limit == 32


def test_sizes_seen_twice_are_too_large_together() -> None:
    """Overload brings batches of many sizes, few of each: none answers as much as twelve does."""
    assert seen([12, 20, 28, 40, 48, 56, 64, 12], 1).limit == inf
    assert seen([12, 20, 28, 40, 48, 56, 64, 12], 2).limit == 16


def test_one_batch_of_a_size_is_enough_if_it_is_far_better() -> None:
    """It was fast by no accident, if those of other sizes scatter by a twentieth of that."""
    peak = seen([12], 1)
    for number in range(15):
        peak.observe(32, bent(32) * (1.0 + 0.02 * (number % 3)))
    assert peak.limit == 28


def test_a_likely_knee_is_tried() -> None:
    """One batch that was far better may be luck where durations scatter: five more tell."""
    peak, scatter, sizes = seen([12], 1), (0.7, 1.3, 1.0, 0.8, 1.2), list[int]()
    for number in range(200):
        sizes.append(int(min(32, peak.trial)))
        peak.observe(sizes[-1], bent(sizes[-1]) * scatter[number % 5])
    assert sizes[:20] == [32] * 15 + [11] * 5
    assert max(sizes[-50:]) <= 20


@pytest.mark.parametrize("step", [8, 16, 32])
def test_a_step_is_filled_up(step: int) -> None:
    """A model that pads to powers of two answers most in batches of one, and least just beyond."""
    peak = PeakSize()
    for _ in range(12):
        for size in range(step - 1, step + step // 4 + 1):
            peak.observe(size, 1e-3 + 0.3e-3 * (step if size <= step else 2 * step))
    assert peak.limit == step


def test_a_knee_that_surprises_is_seen() -> None:
    """Larger batches take longer than a line says: what is known of smaller ones is still known."""
    peak = seen([12], 12)
    peak.surprised([(32, bent(32))] * 4)
    for _ in range(12):
        peak.observe(32, bent(32))
    assert peak.limit == 28


def test_a_line_has_no_knee_whatever_pauses_there_are() -> None:
    """Two of five batches of every size meet one: nearly all of a size have to be worse."""
    peak = PeakSize()
    for number in range(200):
        for size in (16, 32, 48, 64):
            pause = 20e-3 if number % 5 in (1, 3) else 0.0
            peak.observe(size, 5e-3 + 0.05e-3 * size + pause)
    assert peak.limit == inf


def served(duration: Callable[[int], float], waiting: int, batches: int) -> list[int]:
    """Batches of 64, or of what is to be tried: their sizes. More wait than a batch takes."""
    peak, sizes = PeakSize(), []
    for _ in range(batches):
        sizes.append(int(min(waiting, peak.trial)))
        peak.observe(sizes[-1], duration(sizes[-1]))
    return sizes


def test_where_only_large_batches_are_run_smaller_ones_are_tried() -> None:
    """From the 104th batch on five at a time are an eighth smaller, as long as that is better."""
    sizes = served(lambda size: 4e-3 + 4e-3 * max(0, size - 24), 64, 300)
    assert set(sizes[:104]) == {64}
    assert sizes[104:109] == [56] * 5
    assert max(sizes[-20:]) == 24


def test_a_batch_of_all_that_wait_is_not_divided_for_a_trial() -> None:
    """Callers who are answered together come again together: for 500 batches none parts them."""
    peak = PeakSize()
    limits = []
    for _ in range(1_000):
        peak.observe(64, bent(64))
        limits.append(peak.limit)
    assert set(limits[:500]) == {inf}
    assert limits.count(56) == 5


def test_trials_that_show_nothing_become_rare() -> None:
    """On a line, of 9,000 batches five at a time are smaller, after twice as many each time."""
    sizes = served(lambda size: 5e-3 + 0.05e-3 * size, 64, 9_000)
    tried = [number for number, size in enumerate(sizes) if size < 64]
    assert {sizes[number] for number in tried} == {56}
    assert tried[0] == 104
    assert len(tried) <= 5 * 8


def test_sizes_that_are_too_large_are_tried_again() -> None:
    """After 500 batches without one nothing is known of them any more."""
    peak = seen([12, 32], 12)
    assert peak.limit == 28
    for _ in range(510):
        peak.observe(12, bent(12))
    assert peak.limit == inf


def test_batches_of_a_size_that_are_all_blamed_say_nothing_of_others() -> None:
    """Three of four were observed: none of them ran before the change."""
    peak = seen([12], 12)
    for _ in range(3):
        peak.observe(32, bent(32))
    peak.surprised([(32, 2 * bent(32))] * 5)
    for _ in range(9):
        peak.observe(32, bent(32))
    assert peak.limit == 28


@pytest.mark.parametrize("factor", [0.5, 2.0, 4.0])
def test_sizes_seen_before_a_change_of_the_model_mislead_nobody(factor: float) -> None:
    """Full batches show that all take another time: smaller ones do not look better for it."""
    latency = LinearLatency()
    for _ in range(20):
        for size in (8, 32, 48, 64):
            latency.observe(size, 5e-3 + 0.05e-3 * size)
    for _ in range(40):
        latency.observe(64, factor * 8.2e-3)
        assert latency.peak.limit == inf
