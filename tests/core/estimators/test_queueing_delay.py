"""What the event loop delays is allowed for, before a batch and after it."""

import pytest

from adaptive_batching.core import QueueingDelay


def after(waited: list[float]) -> QueueingDelay:
    """Requests whose turn came so many seconds after their bytes."""
    passage = QueueingDelay()
    for number, seconds in enumerate(waited):
        passage.noticed(0.4 * seconds, 0.6 * seconds, float(number))
    return passage


def test_a_loop_that_is_never_late_costs_nobody_anything() -> None:
    """Nothing is allowed for what was never seen."""
    assert QueueingDelay().allowance(0.1) == 0
    assert after([0.0] * 100).allowance(0.1) == 0


def test_nearly_every_delay_is_within_it() -> None:
    """Of a loop that is late by up to 10 ms, evenly spread, it covers all and not much more."""
    spread = [(7 * number % 20) / 20 * 10e-3 for number in range(400)]
    assert 10e-3 < after(spread).allowance(1.0) < 20e-3


def test_an_overload_that_is_over_is_forgotten() -> None:
    """A hundred requests later a tenth is left."""
    late = [10e-3, 20e-3] * 50
    assert after([*late, *[0.1e-3] * 100]).allowance(1.0) < 0.1 * after(late).allowance(1.0)


def test_answers_that_are_long_in_leaving_are_allowed_for() -> None:
    """The way out may be longer than the way in: a batch has many answers."""
    passage = after([0.0] * 200)
    for number in range(200):
        passage.answered(number % 20 * 0.1e-3)
    assert 1.9e-3 < passage.allowance(1.0) < 4e-3
    assert passage.allowance(4e-3) == 1e-3


def test_after_a_pause_of_the_process_requests_are_let_in() -> None:
    """All that came in half a second were late; who comes next has most of his time."""
    paused = after([0.5 - number / 200 for number in range(100)])
    assert paused.allowance(0.1) == 0.025


def test_what_is_read_late_has_less_time() -> None:
    """The time before it was read, that until its turn, and as much for the answer."""
    passage = after([10e-3] * 200)
    just_now, long_ago = 199.0, 200.0
    assert passage.left(0.1, 30e-3, just_now) == pytest.approx(54e-3, abs=1e-4)
    assert passage.left(0.1, 30e-3, long_ago) == pytest.approx(60e-3, abs=1e-4)
