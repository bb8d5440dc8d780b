"""Clients who are refused come again, and a record tells the whole story of a request."""

from math import inf

import pytest

from adaptive_batching.core import JobOutcome, Limits, Scheduler, make_policy
from adaptive_batching.simulation import Experiment, Retries, Server, poisson, simulate
from adaptive_batching.simulation.clients.retries import parse_backoff


def scheduler(policy="greedy", **limits):
    return Scheduler(make_policy(policy), Limits(**limits), workers=1)


def played(retries, **limits):
    """Two at once, of whom one finds the queue full; a batch of one takes a second."""
    history = simulate(
        [0.0, 0.25, 0.25],
        scheduler(max_batch_size=1, max_queue=1, **limits),
        lambda _: 1.0,
        retries=retries,
    )
    return sorted((job.arrived, job.finished, job.outcome) for job in history.jobs)


def test_nobody_comes_again_unless_told_to():
    """The full queue has the last word."""
    assert (0.25, 0.25, JobOutcome.QUEUE_FULL) in played(None)


def test_at_once_and_in_vain():
    """Three more times in the same instant find the same full queue; one record tells of it all."""
    ends = played(Retries(3, 0.0))
    assert len(ends) == 3
    assert (0.25, 0.25, JobOutcome.QUEUE_FULL) in ends


def test_after_retry_after():
    """Room comes when the batch that runs ends, which the one before it has taught."""
    history = simulate(
        [0.0, 5.0, 5.25, 5.25],
        scheduler(max_batch_size=1, max_queue=1),
        lambda _: 1.0,
        retries=Retries(1),
    )
    assert {job.outcome for job in history.jobs} == {JobOutcome.DONE}
    assert max(job.latency for job in history.jobs) == 8.0 - 5.25


def test_a_backoff_doubles():
    """With 0.4 s, spread by half: the attempt after the first is too early, the third is not."""
    ends = played(Retries(3, 0.4))
    assert ends[-1][1:] == (3.0, JobOutcome.DONE)


def test_who_was_late_comes_again_with_a_new_deadline():
    """The second batch ends 0.3 s too late for its job; the third, of the same job, is in time."""
    history = simulate(
        [0.0, 0.1],
        scheduler(max_batch_size=1, max_latency=0.5),
        lambda _: 0.45,
        retries=Retries(1, 0.0),
    )
    first, second = sorted(history.jobs)
    assert first.finished == 0.45
    assert (second.arrived, second.finished) == (0.1, pytest.approx(1.35))
    assert second.deadline == pytest.approx(0.9 + 0.5)


@pytest.mark.parametrize(("max_latency", "end", "due"), [(0.65, 0.6, 0.65), (0.55, 1.2, 1.15)])
def test_a_late_loop(max_latency, end, due):
    """It delays a request there and back; who finds that too long sends again, and is told late."""
    limits = {"max_batch_size": 1, "max_latency": max_latency}
    options = {"retries": Retries(1, 0.0), "loop_delay": 0.1}
    (job,) = simulate([0.0], scheduler(**limits), lambda _: 0.4, **options).jobs
    assert (job.arrived, job.finished, job.deadline) == pytest.approx((0.0, end, due))


@pytest.mark.parametrize("backoff", [None, 0.0, 0.01])
@pytest.mark.parametrize("policy", ["cork", "greedy", "bentoml"])
def test_every_request_ends_once(policy, backoff):
    """Goodput is of requests, however often they were sent; and the same again for one seed."""
    times = poisson(20_000, 0.05, seed=1)
    experiment = Experiment(
        times, Server(5e-3, 0.05e-3), Limits(64, 0.025), retries=Retries(3, backoff)
    )
    row = experiment.run(policy)
    assert row.requests == len(times)
    assert 0 < row.sent_again <= 3 * len(times)
    again = experiment.run(policy)
    assert (again.on_time, again.sent_again) == (row.on_time, row.sent_again)


def test_what_is_no_retry():
    """Numbers out of range are named."""
    with pytest.raises(ValueError, match="retries: expected at least 1, got 0"):
        Retries(0)
    with pytest.raises(ValueError, match="backoff: expected 0 seconds or more"):
        Retries(1, inf)
    assert parse_backoff("retry-after") is None
    assert parse_backoff("50ms") == 0.05
    assert str(Retries(2, 0.05)) == "up to 2 retries after 50 ms and twice as long each time"
