"""BentoML's dispatcher, its published failures included: each is the price of one of its rules."""

from collections.abc import Callable, Sequence
from math import inf

import pytest

from adaptive_batching.core import (
    BatchRecord,
    Hold,
    Job,
    Limits,
    Outcome,
    Reason,
    Scheduler,
    Shed,
    ShedReason,
)
from adaptive_batching.core.policies.bentoml import BentoML, Optimizer, least_squares
from adaptive_batching.simulation.kernel.engine import History, simulate

TICK = 1e-3


def record(released: float, finished: float, requests: int, oldest: float = 0.0) -> BatchRecord:
    ends = (requests, requests, None, Reason.IDLE, Outcome.DONE)
    return BatchRecord(released, finished, *ends, 0.0, oldest, 0)


def trained(**limits: float) -> Scheduler:
    """A scheduler whose policy has had its 11 batches of one request, 0.1 s each."""
    scheduler = Scheduler(BentoML(), Limits(**limits))  # type: ignore[arg-type]
    history = play(scheduler, [float(second) for second in range(11)], lambda _: 0.1)
    assert len(history.batches) == 11
    return scheduler


def play(
    scheduler: Scheduler, arrivals: Sequence[float], service: Callable[[int], float]
) -> History:
    return simulate(arrivals, scheduler, service)


# --------------------------------------------------------------------------------------- the fit


def test_least_squares_of_several_sizes() -> None:
    """A line is found as it is."""
    assert least_squares([(1, 0.15), (2, 0.2), (5, 0.35)]) == pytest.approx((0.05, 0.1))


@pytest.mark.parametrize("size", [1, 4])
def test_least_squares_of_one_size_is_that_of_least_norm(size: int) -> None:
    """All of size k and duration T: slope k T / (k^2 + 1), intercept T / (k^2 + 1)."""
    share = 0.3 / (size**2 + 1)
    assert least_squares([(size, 0.3)] * 7) == pytest.approx((size * share, share))


def test_before_the_first_batch_it_guesses_from_the_promise() -> None:
    """Two thirtieths and one thirtieth of max_latency, at most 2 s and 1 s."""
    optimizer = Optimizer()
    optimizer.assume(0.3)
    assert (optimizer.per_request, optimizer.fixed) == (0.02, 0.01)
    optimizer.assume(inf)
    assert (optimizer.per_request, optimizer.fixed) == (2.0, 1.0)


def test_it_fits_when_five_seconds_have_passed() -> None:
    """Two batches are skipped, the third is fitted at once, the next ones 5 s later."""
    optimizer = Optimizer()
    for end, duration in ((1.0, 9.0), (2.0, 9.0)):
        optimizer.learn(record(end - duration, end, 1), 0.0)
    assert optimizer.predict(1) == 0.0
    optimizer.learn(record(2.8, 3.0, 1), 0.5)
    assert (optimizer.predict(1), optimizer.wait) == (pytest.approx(0.2), 0.5)
    optimizer.learn(record(7.5, 7.9, 1), 0.0)
    assert optimizer.predict(1) == pytest.approx(0.2)
    optimizer.learn(record(7.8, 8.0, 1), 0.1)
    assert (optimizer.predict(1), optimizer.wait) == (pytest.approx(0.8 / 3), pytest.approx(0.2))


def test_slope_and_intercept_are_clamped_each_for_itself() -> None:
    """A line that falls keeps its intercept: both points are then overestimated."""
    optimizer = Optimizer()
    for requests, duration in ((1, 1.0), (1, 1.0), (1, 0.2), (3, 0.1)):
        optimizer.learn(record(10.0 - duration, 10.0, requests), 0.0)
    optimizer.refresh()
    assert (optimizer.per_request, optimizer.fixed) == (1e-6, pytest.approx(0.25))


def test_it_keeps_fifty_batches() -> None:
    """The fifty-first pushes the first out."""
    optimizer = Optimizer()
    for index in range(2 + 51):
        optimizer.learn(record(0.0, 50.0 if index == 2 else 1.0, 1), 0.0)
    optimizer.refresh()
    assert optimizer.predict(1) == pytest.approx(1.0)


# -------------------------------------------------------------------------------- ticks, training


def test_training_waits_for_two_and_for_three() -> None:
    """Nine lone requests leave at once, the tenth waits for a second and the eleventh for more.

    Of 0.1 s each the fit has made 50 ms and 50 ms: patience is predicted(5) = 0.3 s less
    predicted(2) = 0.15 s, and then predicted(7) = 0.4 s less predicted(3) = 0.2 s.
    """
    scheduler = Scheduler(BentoML(), Limits(max_latency=60.0))
    history = play(scheduler, [float(second) for second in range(11)], lambda _: 0.1)
    waits = [batch.released - batch.oldest_arrived for batch in history.batches]
    assert waits[:9] == [0.0] * 9
    assert waits[9:] == pytest.approx([0.15, 0.2], abs=1.5 * TICK)


def test_an_end_is_noticed_at_the_next_tick() -> None:
    """The worker is free at 10.3 ms, the batch leaves at 11 ms."""
    history = play(Scheduler(BentoML(), Limits()), [0.0, 1e-3], lambda _: 10.3e-3)
    assert history.batches[1].released == pytest.approx(11e-3)


def test_ticks_begin_when_something_arrives_at_an_empty_queue() -> None:
    """The worker is free at 10.3 ms; the queue was empty until 4.5 ms, so it leaves at 10.5 ms."""
    history = play(Scheduler(BentoML(), Limits()), [0.0, 4.5e-3], lambda _: 10.3e-3)
    assert history.batches[1].released == pytest.approx(10.5e-3)


def test_without_ticks_an_end_is_noticed_at_once() -> None:
    """`bentoml:0` is the same rule, asked at events."""
    history = play(Scheduler(BentoML(0.0), Limits()), [0.0, 1e-3], lambda _: 10.3e-3)
    assert history.batches[1].released == 10.3e-3


def test_the_oldest_is_cancelled_while_the_worker_is_busy() -> None:
    """Of three waiting behind a batch, predicted(3) = 0.2 s: the head goes 0.2 s before 1 s."""
    scheduler = trained(max_latency=1.0)
    for job in (Job(20.0, deadline=21.0), *(Job(20.1, deadline=21.1) for _ in range(3))):
        scheduler.submit(job)
        if job.arrived == 20.0:
            scheduler.next(20.0)
    assert scheduler.permits.idle == 0
    assert scheduler.next(20.1) == Hold(20.1 + TICK)
    assert isinstance(scheduler.next(20.899), Hold)
    shed = scheduler.next(20.901)
    assert isinstance(shed, Shed)
    assert (len(shed.jobs), shed.reason) == (1, ShedReason.HOPELESS)


def test_it_corks_while_company_is_likely() -> None:
    """With a mean wait of 0.1 s, one request waits for 95 ms less tick and slope."""
    scheduler = trained(max_latency=60.0)
    policy = scheduler.policy
    assert isinstance(policy, BentoML)
    policy.optimizer.wait, policy.optimizer.per_request = 0.1, 0.01
    history = play(scheduler, [20.0], lambda _: 0.1)
    assert history.batches[0].released == pytest.approx(20.0 + 0.095 - TICK - 0.01, abs=1.1 * TICK)


def test_a_negative_tick() -> None:
    """It is named with what was expected."""
    with pytest.raises(ValueError, match=r"bentoml: expected a tick of 0 s or more, got -1"):
        BentoML(-1.0)


@pytest.mark.parametrize(("duration", "busy"), [(0.5e-3, 0.5), (1.1e-3, 0.55), (5.1e-3, 0.85)])
def test_a_free_worker_waits_for_the_tick(duration: float, busy: float) -> None:
    """A batch of 1.1 ms costs 2 ms."""
    scheduler = Scheduler(BentoML(), Limits(max_batch_size=1))
    history = play(scheduler, [0.0] * 200, lambda _: duration)
    assert 200 * duration / history.batches[-1].finished == pytest.approx(busy, rel=0.01)


def test_what_it_has_learned_is_shown_in_milliseconds() -> None:
    """The representation is for people who look for the reason of a decision."""
    optimizer = Optimizer()
    optimizer.assume(0.3)
    assert repr(optimizer) == "<Optimizer 10 ms + 20 ms * requests wait=0 ms>"
