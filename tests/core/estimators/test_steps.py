"""Whether a model is found to pad batches to a few sizes."""

import tracemalloc
from collections.abc import Callable
from random import Random

import pytest

from adaptive_batching.core.estimators.steps import LatestBatches, Steps, find_steps

Curve = Callable[[int], float]


def looked_at(curve: Curve, batches: int = 600, noise: float = 0.05, seed: int = 1) -> Steps | None:
    """What is found in batches of 1 to 64 items, one in fifty of which meets a pause of 30 ms."""
    rng, latest, found = Random(seed), LatestBatches(), None
    for _ in range(batches):
        size = round(2 ** rng.uniform(0, 6))
        pause = 30e-3 if rng.random() < 0.02 else 0.0
        due = latest.observe(size, curve(size) * rng.gauss(1.0, noise) + pause)
        found = find_steps(due) if due else found
    return found


def line(size: float) -> float:
    return 5e-3 + 0.4e-3 * size


@pytest.mark.parametrize("seed", range(5))
def test_powers_of_two_are_found(seed: int) -> None:
    """And said in words that name what to declare."""
    steps = looked_at(lambda size: line(1 << (size - 1).bit_length()), seed=seed)
    assert steps is not None
    assert steps.sizes == (1, 2, 4, 8, 16, 32, 64)
    assert str(steps) == "33 items take as long as 64"
    assert steps.setting == "sizes=[1, 2, 4, 8, 16, 32, 64]"
    assert steps.option == "--sizes 1,2,4,8,16,32,64"


@pytest.mark.parametrize("step", [8, 16])
def test_multiples_are_found(step: int) -> None:
    """Of eight and of sixteen, as tensor cores have them."""
    steps = looked_at(lambda size: line(-(-size // step) * step), noise=0.02)
    assert steps is not None
    assert steps.sizes == tuple(range(step, 65, step))


def test_steps_that_take_as_long_are_one() -> None:
    """A model that pads to eight items at least needs no smaller sizes."""
    steps = looked_at(lambda size: line(max(8, 1 << (size - 1).bit_length())), noise=0.02)
    assert steps is not None
    assert steps.sizes == (8, 16, 32, 64)


CURVES: dict[str, Curve] = {
    "line": line,
    "flat": lambda size: 5e-3,
    "quadratic": lambda size: 5e-3 + 0.01e-3 * size * size,
    "roofline": lambda size: max(5e-3, 0.4e-3 * size),
    "concave": lambda size: 2e-3 * size**0.5,
    "knee": lambda size: 1e-3 + 0.05e-3 * size + max(0.0, size - 20) * 1e-3,
}


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
def test_curves_without_steps_are_not_taken_for_steps(curve: str, noise: float) -> None:
    """Whatever their shape."""
    assert not any(looked_at(CURVES[curve], noise=noise, seed=seed) for seed in range(4))


def test_a_model_that_became_slower_is_not_taken_for_steps() -> None:
    """Though its batches are larger since then."""
    rng = Random(1)
    before = [(size, line(size) * rng.gauss(1.0, 0.05)) for size in rng.choices(range(1, 9), k=200)]
    later = [
        (size, 3 * line(size) * rng.gauss(1.0, 0.05)) for size in rng.choices(range(9, 17), k=312)
    ]
    assert find_steps(before + later) is None


def test_a_single_size_shows_nothing() -> None:
    """Nothing is said before sizes have varied."""
    assert looked_at(lambda size: 5e-3, noise=0.0) is None
    assert find_steps([(8, 5e-3)] * 200) is None


def test_looks_are_ever_further_apart() -> None:
    """After 128 batches, 256, 512 and so on; at 512 batches at the most."""
    latest = LatestBatches()
    looks = {number: len(latest.observe(1, 5e-3)) for number in range(1, 2050)}
    looks = {number: batches for number, batches in looks.items() if batches}
    assert looks == {128: 128, 256: 256, 512: 512, 1024: 512, 2048: 512}


def test_sizes_far_apart_cost_no_memory() -> None:
    """A recording may name any size; only steps with batches are looked at."""
    sizes = [10**12, 18_196_506_200, 7, 12_718_666_098] * 32
    tracemalloc.start()
    try:
        assert find_steps([(size, 1.0 + size) for size in sizes]) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1e6  # bytes


def test_more_steps_than_batches_are_not_named() -> None:
    """Levels of four items, at a size with as many steps below it as no list should have."""
    sizes = [10**9 + offset for offset in (1, 2, 3, 4, 5, 6, 7, 8)] * 16
    batches = [(size, 1.0 + (size - 10**9 - 1) // 4) for size in sizes]
    assert find_steps(batches) is None
    assert find_steps([(size - 10**9 + 48, seconds) for size, seconds in batches]) is not None
