"""What the model of a batch's duration learns, and what it refuses to learn."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adaptive_batching.core import LinearLatency


def learned(batches: list[tuple[int, float]]) -> LinearLatency:
    latency = LinearLatency()
    for size, duration in batches:
        latency.observe(size, duration)
    return latency


def test_knows_nothing_at_first() -> None:
    """Before the first batch it predicts 0, so that it can force nothing."""
    latency = LinearLatency()
    assert latency.predict(64) == 0.0
    assert not latency.trusted


def test_finds_the_line_when_sizes_vary() -> None:
    """A noiseless line is found to within a percent after a few dozen batches."""
    rng = random.Random(1)
    sizes = [rng.randint(1, 64) for _ in range(50)]
    latency = learned([(size, 5e-3 + 0.05e-3 * size) for size in sizes])
    assert latency.fixed == pytest.approx(5e-3, rel=0.01)
    assert latency.per_item == pytest.approx(0.05e-3, rel=0.01)


def test_one_size_says_nothing_about_the_slope() -> None:
    """After single requests only, a large batch is not predicted to take many times as long."""
    latency = learned([(1, 5.05e-3)] * 70)
    assert latency.predict(1) == pytest.approx(5.05e-3)
    assert latency.predict(64) < 2 * 8.2e-3  # least squares on one size says 164 ms


def test_an_outlier_moves_little() -> None:
    """One second of pause in fifty batches of 20 ms leaves every prediction within 20 % (B7)."""
    rng = random.Random(2)
    truth = [(size, 0.02 + 0.002 * size) for size in (rng.randint(1, 8) for _ in range(50))]
    for position in range(10, 50, 7):
        batches = [*truth]
        batches[position] = (batches[position][0], 1.0)
        latency = learned(batches)
        for size in range(1, 9):
            assert latency.predict(size) == pytest.approx(0.02 + 0.002 * size, rel=0.2)


def test_an_outlier_at_the_start_is_forgotten() -> None:
    """A first batch that loads the model does not spoil the fit of the next hundred."""
    latency = learned([(1, 2.0)] + [(1 + i % 8, 0.02 + 0.002 * (1 + i % 8)) for i in range(100)])
    assert latency.predict(8) == pytest.approx(0.036, rel=0.2)


def test_a_change_is_believed_after_a_few_batches() -> None:
    """When the model becomes twice as slow, ten batches are enough to know it."""
    rng = random.Random(3)
    sizes = [rng.randint(1, 64) for _ in range(110)]
    before = [(size, 5e-3 + 0.05e-3 * size) for size in sizes[:100]]
    after = [(size, 10e-3 + 0.1e-3 * size) for size in sizes[100:]]
    latency = learned(before + after)
    assert latency.predict(32) == pytest.approx(13.2e-3, rel=0.15)


def test_the_jump_to_a_slower_model_is_no_slope() -> None:
    """Single requests, then eight times slower and batches that grow: known after four of them.

    With a memory of where the old line lay, the way from there to the new one was taken for a
    slope: 26 ms predicted for one item, of 176 ms, for the next three seconds.
    """
    slow = [(size, 8 * (0.02 + 0.002 * size)) for size in (1, 7, 10, 13)]
    latency = learned([(1, 0.022)] * 400 + slow)
    for size in (1, 8, 16):
        assert latency.predict(size) == pytest.approx(8 * (0.02 + 0.002 * size), rel=0.06)


@pytest.mark.parametrize(("first", "then"), [(8, 64), (64, 8)])
def test_the_first_batches_of_another_size_are_no_change(first: int, then: int) -> None:
    """After batches of one size, those of the next show the slope, and it isn't forgotten.

    They were taken for a slower model, the line was laid flat through them alone, and a scheduler
    that believes it runs only full batches from then on, which never show a slope.
    """
    batches = [first] * 9 + [then] * 30
    latency = learned([(size, 1e-3 + 0.3e-3 * size) for size in batches])
    for size in (8, 32, 64):
        assert latency.predict(size) == pytest.approx(1e-3 + 0.3e-3 * size, rel=0.1)


def slowed_down(change: int, after: int) -> LinearLatency:
    """300 batches of 18 to 30 items, then some of 58 to 64 that take `change` times as long."""
    rng = random.Random(4)
    before = [(size, 5e-3 + 0.05e-3 * size) for size in (rng.randint(18, 30) for _ in range(300))]
    sizes = [rng.randint(58, 64) for _ in range(after)]
    return learned(before + [(size, change * (5e-3 + 0.05e-3 * size)) for size in sizes])


def test_a_change_keeps_the_proportions() -> None:
    """The queue that a slower model leaves makes large batches only: what small ones take now is
    known all the same, because slope and intercept are taken to have grown alike.
    """
    latency = slowed_down(2, after=5)
    for size in (20, 40, 64):
        assert latency.predict(size) == pytest.approx(10e-3 + 0.1e-3 * size, rel=0.06)
    assert latency.trusted


def test_proportions_that_are_wrong_are_unlearned() -> None:
    """Only the intercept has grown: fifty batches of all sizes later, the line is right again."""
    rng = random.Random(5)
    sizes = [rng.randint(1, 64) for _ in range(350)]
    before = [(size, 5e-3 + 0.05e-3 * size) for size in sizes[:300]]
    latency = learned(before + [(size, 13e-3 + 0.05e-3 * size) for size in sizes[300:]])
    assert latency.predict(1) == pytest.approx(13.05e-3, rel=0.03)
    assert latency.predict(64) == pytest.approx(16.2e-3, rel=0.03)


def test_a_recovery_is_believed_sooner_than_a_slowdown() -> None:
    """Pauses make batches late, nothing makes them early: two that are faster are no accident."""
    slow = [(1 + i % 64, 10e-3 + 0.1e-3 * (1 + i % 64)) for i in range(100)]
    latency = learned(slow + [(8, 5.4e-3)] * 2)
    assert latency.predict(40) == pytest.approx(7e-3, rel=0.02)


def test_a_clock_that_jumps_is_ignored() -> None:
    """Negative and infinite durations teach nothing."""
    latency = learned([(4, 0.01), (4, -1.0), (4, float("inf")), (4, float("nan"))])
    assert latency.batches == 1
    assert latency.predict(4) == pytest.approx(0.01)


@given(
    st.lists(
        st.tuples(st.integers(1, 1000), st.floats(0, 1e4, allow_nan=False) | st.floats(1e-9, 1e-3)),
        min_size=1,
        max_size=200,
    )
)
@example([(1, 0.0)] * 4 + [(1, 1e-240)] + [(1, 1.0)] * 4)
def test_whatever_it_sees_it_stays_sane(batches: list[tuple[int, float]]) -> None:
    """P11: finite, fixed >= 0 and per_item >= 0, after any durations at all."""
    latency = learned(batches)
    for size in (1, 10, 1000):
        assert 0 <= latency.predict(size) < float("inf")
    assert latency.fixed >= 0
    assert latency.per_item >= 0
    assert 0 <= latency.margin < float("inf")


@pytest.mark.parametrize("paused", range(5))
def test_a_pause_among_the_first_batches_does_not_bend_the_line(paused: int) -> None:
    """The first line that is trusted is that of the other four batches, whichever met the pause."""
    latency = LinearLatency()
    for number, size in enumerate((1, 2, 4, 8, 16)):
        latency.observe(size, 12e-3 + 0.05e-3 * size + (80e-3 if number == paused else 0.0))
    assert latency.trusted
    assert latency.predict(32) == pytest.approx(12e-3 + 0.05e-3 * 32, rel=0.25)


@pytest.mark.parametrize("largest", [0, 1, 2, 3, 4])
def test_two_compilations_among_the_first_batches_do_not_bend_the_line(largest: int) -> None:
    """`torch.compile` compiles for the first batch and for the first one of another size."""
    sizes = [1, 1, 1, 1, 1]
    sizes[largest] = 29
    slow = {0, largest or 1}
    latency = LinearLatency()
    for number, size in enumerate(sizes):
        latency.observe(size, 5e-3 + 0.3e-3 * size + (20.0 if number in slow else 0.0))
    assert latency.predict(1) == pytest.approx(5.3e-3, rel=0.25)
    assert latency.predict(29) <= 1.25 * 29 * 5.3e-3


def test_a_warm_batch_among_cold_ones_is_believed() -> None:
    """Workers that load at the same time end most of the first five batches."""
    latency = learned([(4, 0.4), (2, 0.4), (8, 0.4), (8, 0.036), (1, 0.4)])
    assert latency.predict(4) == pytest.approx(0.036, rel=0.1)


def test_a_fast_batch_before_all_others_is_not_believed() -> None:
    """The first of all would be cold: since then the model has slowed down."""
    latency = learned([(4, 0.01), *[(4, 0.2)] * 4])
    assert latency.predict(4) == pytest.approx(0.2, rel=0.25)


def test_a_batch_of_another_kind_is_not_believed() -> None:
    """Where batch keys cost differently, the cheapest is no better guess than the others."""
    latency = LinearLatency()
    latency.mixed = True
    for duration in (0.4, 0.4, 0.4, 0.036, 0.4):
        latency.observe(4, duration)
    assert latency.predict(4) == pytest.approx(0.33, rel=0.05)


@pytest.mark.parametrize("ratio", [0.6, 1.6])
def test_first_batches_that_differ_by_less_than_half_are_taken_as_they_are(ratio: float) -> None:
    """None of them is cold beside the others."""
    latency = learned([(4, 0.4), (4, 0.4), (4, 0.4), (4, 0.4 * ratio), (4, 0.4)])
    assert latency.predict(4) == pytest.approx(0.4, rel=0.1)


def test_a_fast_batch_after_a_change_is_not_believed() -> None:
    """Only the first batches of all are cold."""
    latency = learned([(4, 0.04)] * 20)
    for duration in (0.4, 0.4, 0.4, 0.4, 0.04):
        latency.observe(4, duration)
    assert latency.predict(4) == pytest.approx(0.33, rel=0.05)


def test_a_pause_right_after_a_change_does_not_bend_the_line() -> None:
    """None of the first batches after a change counts as an outlier until there are enough."""
    latency = learned([(1 + i % 8, 1.0 + 0.1 * (1 + i % 8)) for i in range(20)])
    for size, pause in ((1, 0.0), (3, 0.0), (8, 0.0), (4, 10.0), (7, 0.0)):
        latency.observe(size, 5e-3 + 0.3e-3 * size + pause)
    assert latency.predict(8) == pytest.approx(7.4e-3, rel=0.25)
