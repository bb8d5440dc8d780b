"""What is learned of batches whose items don't cost the same."""

from math import inf, isfinite
from random import Random

import pytest

from adaptive_batching.core import CostLatency, LinearLatency
from adaptive_batching.units import LARGEST_COST

FIXED, PER_ITEM, PER_COST = 4e-3, 0.05e-3, 1.2e-6  # seconds


def duration(size: int, cost: float) -> float:
    return FIXED + PER_ITEM * size + PER_COST * cost


def learned(batches: int, *, sizes: tuple[int, ...], seed: int = 1) -> CostLatency:
    """After batches padded to the longest of texts whose lengths are lognormal."""
    rng, latency = Random(seed), CostLatency()
    for _ in range(batches):
        size = rng.choice(sizes)
        cost = size * max(rng.lognormvariate(3.8, 0.8) for _ in range(size))
        latency.observe(size, duration(size, cost) * rng.gauss(1.0, 0.03), cost)
    return latency


@pytest.mark.parametrize("sizes", [(32,), (1, 2, 4, 8, 16, 32, 64)])
def test_the_slope_of_the_cost_is_known_after_tens_of_batches(sizes: tuple[int, ...]) -> None:
    """Costs vary by themselves, so that even batches of a single size tell what they take."""
    latency = learned(60, sizes=sizes)
    assert latency.per_cost == pytest.approx(PER_COST, rel=0.15)
    for cost in (32 * 20.0, 32 * 300.0):
        assert latency.predict(32, cost) == pytest.approx(duration(32, cost), rel=0.1)


def test_the_scatter_that_costs_explain_is_no_margin() -> None:
    """To a line of sizes alone the same batches are noise, with a margin of a quarter and more."""
    rng, by_size, by_cost = Random(2), LinearLatency(), CostLatency()
    for _ in range(300):
        cost = 32 * max(rng.lognormvariate(3.8, 0.8) for _ in range(32))
        by_size.observe(32, duration(32, cost) * rng.gauss(1.0, 0.03), cost)
        by_cost.observe(32, duration(32, cost) * rng.gauss(1.0, 0.03), cost)
    assert by_size.margin > 0.25
    assert by_cost.margin < 0.08


def test_a_reader_that_knows_no_costs_has_the_line_of_usual_batches() -> None:
    """Without a cost, a batch is taken to cost for each item what batches of late have cost."""
    latency = learned(200, sizes=(4, 8, 16))
    usual = latency.mean_cost * 12
    assert latency.predict(12) == pytest.approx(latency.predict(12, usual))
    assert latency.predict(12) == latency.fixed + latency.per_item * 12


def test_costs_that_are_all_the_same_leave_the_line_of_sizes() -> None:
    """Nothing tells the cost from the size then, and either gives the same durations."""
    rng, latency = Random(3), CostLatency()
    for _ in range(100):
        size = rng.randint(1, 64)
        latency.observe(size, duration(size, 100.0 * size), 100.0 * size)
    assert latency.predict(40, 4000.0) == pytest.approx(duration(40, 4000.0), rel=0.02)
    assert latency.predict(40) == pytest.approx(duration(40, 4000.0), rel=0.02)


def test_costs_that_are_all_the_same_show_no_knee() -> None:
    """Five items are worth five, however their costs are rounded: no batch of five is a four."""
    for seed in range(20):
        rng, latency = Random(seed), CostLatency()
        for _ in range(400):
            size = rng.choice((4, 5, 5, 5))
            seconds = (5e-3 + 1e-3 * size) * rng.gauss(1.0, 0.02)
            latency.observe(size, seconds, 100.0 * size)
        assert latency.peak.limit == inf


def test_items_that_cost_nothing_have_the_line_of_sizes() -> None:
    """With no cost anywhere, it is the latency of sizes alone."""
    rng, latency, by_size = Random(4), CostLatency(), LinearLatency()
    for _ in range(100):
        size = rng.randint(1, 64)
        seconds = duration(size, 0.0) * rng.gauss(1.0, 0.03)
        latency.observe(size, seconds, 0.0)
        by_size.observe(size, seconds)
    assert (latency.fixed, latency.per_item) == (by_size.fixed, by_size.per_item)
    assert latency.predict(10, 0.0) == by_size.predict(10)


def test_a_batch_that_costs_nothing_among_others_says_nothing_of_a_knee() -> None:
    """It is worth no items, and one that takes five times as long is a surprise like any other."""
    line = CostLatency()
    for size in (1, 4, 8, 16) * 10:
        for cost in (30.0, 100.0, 300.0):
            line.observe(size, 4e-3 + 2e-6 * size * cost, size * cost)
    for _ in range(20):
        line.observe(4, 20e-3, 0.0)
    assert line.predict(4, 0.0) > 4e-3
    assert line.peak.limit == inf


def test_a_model_of_which_some_batches_cost_nothing_may_slow_down() -> None:
    """Nothing is expected of batches that cost nothing, and so nothing is learned of a factor."""
    for seed in range(20):
        rng, latency = Random(seed), CostLatency()
        for batch in range(600):
            size = rng.randint(1, 16)
            cost = size * rng.choice((0.0, 0.0, 30.0, 60.0))
            slower = 2.0 if batch >= 200 else 1.0
            latency.observe(size, slower * (1e-5 + 1e-6 * cost) * rng.uniform(0.9, 1.1), cost)
            assert latency.predict(size, 0.0) >= 0
        assert latency.predict(8, 480.0) == pytest.approx(2e-6 * 490, rel=0.15)


def test_a_model_that_slows_down_is_followed_in_all_its_parts() -> None:
    """Twice as long from one batch to the next: ten batches later predictions are right again."""
    rng, latency = Random(5), learned(300, sizes=(8, 16, 32))
    for _ in range(20):
        cost = 16 * max(rng.lognormvariate(3.8, 0.8) for _ in range(16))
        latency.observe(16, 2 * duration(16, cost), cost)
    for cost in (16 * 60.0, 16 * 200.0):
        assert latency.predict(16, cost) == pytest.approx(2 * duration(16, cost), rel=0.15)


def test_cheap_items_make_no_large_batch_look_too_large() -> None:
    """A batch of cheap items answers more of them in a second than one of dear items; no peak."""
    line = CostLatency()
    for size, each in [(1, 10), (1, 2000), (12, 10), (12, 2000), (7, 10), (5, 2000)] * 20:
        line.observe(size, 4e-3 + 5e-6 * size * each, size * each)
    assert line.peak.limit == inf


@pytest.mark.parametrize(
    "costs",
    [
        (LARGEST_COST, 2.0, 3.0),
        (1.0, 5.0, LARGEST_COST, 2.0, 3.0, 4.0) + (1.0,) * 5_000,
        (1e-200, 2e-200, 1e-300),
        (1e-12, 3e-12, 2e-12),
        (100.0, 200.0) + (0.0,) * 60_000,  # the mean of the costs decays to next to nothing
    ],
)
def test_costs_of_any_magnitude_leave_a_line(costs: tuple[float, ...]) -> None:
    """A cost comes from a request: no order of large and small ones may leave no number."""
    line = CostLatency()
    for cost in costs:
        for size in (1, 8, 64):
            line.observe(size, duration(size, 0.0), size * cost)
            assert line.fixed >= 0
            assert isfinite(line.predict(64, 64 * LARGEST_COST))


def test_a_pause_among_the_first_batches_leaves_the_line_of_those_that_cost_nothing() -> None:
    """Batches that cost nothing say how long the fixed part is, and allow any slope."""
    line = CostLatency()
    for size, cost, pause in [(1, 0, 0.0), (1, 40, 0.0), (1, 20, 10.0), (1, 0, 0.0), (1, 30, 0.0)]:
        line.observe(size, 5e-3 + 0.5e-3 * cost + pause, cost)
    assert line.predict(1, 0) == pytest.approx(5e-3, rel=0.3)
    assert line.predict(1, 40) == pytest.approx(25e-3, rel=0.3)
