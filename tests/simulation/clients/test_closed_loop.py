"""Users wait for their answers, and each has one request under way at a time."""

import pytest

from adaptive_batching.core import Limits, Scheduler, make_policy
from adaptive_batching.simulation.clients.closed_loop import ClosedLoop, Span, parse_span
from adaptive_batching.simulation.kernel.engine import simulate
from adaptive_batching.simulation.servers.servers import Server

NOTHING = Span(0.0, 0.0)


def play(policy="greedy", users=64, seconds=2.0, think=NOTHING, **limits):
    loop = ClosedLoop(users, seconds, think, Span(0.3e-3, 2.3e-3), seed=1)
    scheduler = Scheduler(make_policy(policy), Limits(**limits))
    return simulate(loop, scheduler, Server(5e-3, 5e-5).service())


@pytest.mark.parametrize("policy", ["cork", "greedy", "window:2ms"])
def test_one_request_a_user(policy):
    """At no time are more under way than there are users."""
    changes = []
    for job in play(policy).jobs:
        changes += [(job.arrived, 1), (job.finished, -1)]
    under_way = 0
    for _, change in sorted(changes):
        under_way += change
        assert 0 <= under_way <= 64
    assert under_way == 0


def test_greedy_alternates_and_cork_gathers():
    """Greedy splits 64 users into two halves that take turns; cork waits for all of them."""
    answers = {policy: len(play(policy).jobs) / 2.0 for policy in ("greedy", "cork")}
    assert answers["greedy"] == pytest.approx(4_850, rel=0.02)
    assert answers["cork"] > 1.15 * answers["greedy"]


def test_refusals_are_answers():
    """Who is turned away comes again: the queue holds 10, the rest keep knocking."""
    history = play(max_queue=10, users=30)
    outcomes = {job.outcome.value for job in history.jobs}
    assert outcomes == {"done", "queue_full"}
    assert len(history.jobs) > 10 * 30


def test_expired_jobs_are_answers():
    """So is a deadline that passed in the queue."""
    history = play(max_latency=6e-3, max_batch_size=4, users=12)
    assert {"done", "expired"} <= {job.outcome.value for job in history.jobs}


def test_it_ends():
    """Nobody sends after the time is over."""
    history = play(seconds=0.1)
    assert max(job.arrived for job in history.jobs) < 0.1


def test_thinking_slows_users_down():
    """One user with 20 ms of thought sends about 37 requests a second."""
    history = play(users=1, think=Span(20e-3, 20e-3), seconds=10.0)
    assert len(history.jobs) / 10 == pytest.approx(1 / (20e-3 + 1.3e-3 + 5.05e-3), rel=0.02)


def test_the_same_again():
    """Each simulation of a loop draws the same delays."""
    loop = ClosedLoop(5, 1.0, NOTHING, Span(1e-3, 2e-3), seed=3)
    one, two = (
        simulate(loop, Scheduler(make_policy("greedy"), Limits()), lambda _: 1e-3) for _ in range(2)
    )
    assert one == two


def test_a_loop_of_one_instant_after_another_is_refused():
    """Without any delay it could turn for ever in one instant."""
    with pytest.raises(ValueError, match="expected more than 0 seconds together, got 0"):
        ClosedLoop(1, 1.0, NOTHING, NOTHING)


@pytest.mark.parametrize("users", [0, -1, 10**9])
def test_impossible_users(users):
    """One at least."""
    with pytest.raises(ValueError, match="users: expected 1 to 100,000, got"):
        ClosedLoop(users, 1.0, NOTHING, Span(1.0, 1.0))


@pytest.mark.parametrize("duration", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_durations(duration):
    """It has to end."""
    with pytest.raises(ValueError, match="duration: expected a positive number"):
        ClosedLoop(1, duration, NOTHING, Span(1.0, 1.0))


def test_spans():
    """As people type them and as they are shown."""
    assert parse_span("20ms") == Span(0.02, 0.02)
    assert parse_span("0.3ms-2.3ms") == Span(0.3 * 1e-3, 2.3 * 1e-3)
    assert str(parse_span("0.5ms-2ms")) == "500µs-2ms"


@pytest.mark.parametrize("text", ["", "5", "2ms-1ms", "-1ms", "1ms-", "1ms-2ms-3ms"])
def test_misspelt_spans(text):
    """Refused with what was expected and what came."""
    with pytest.raises(ValueError, match=r"expected .*, got"):
        parse_span(text)


@pytest.mark.parametrize("text", ["-1ms", "1ms-"])
def test_a_span_without_one_of_its_ends_is_named_whole(text):
    """What came is shown as it was typed."""
    with pytest.raises(ValueError, match=f"got '{text}'$"):
        parse_span(text)
