"""Several dispatchers on one clock: replicas with their own workers, or all before one pool."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.core import JobOutcome, Limits
from adaptive_batching.core.policies.greedy import Greedy
from adaptive_batching.errors import PolicyError
from adaptive_batching.simulation.clients.closed_loop import ClosedLoop, Span
from adaptive_batching.simulation.clients.keys import Lots
from adaptive_batching.simulation.clients.retries import Retries
from adaptive_batching.simulation.kernel.engine import drive
from adaptive_batching.simulation.kernel.fleet import Fleet
from adaptive_batching.simulation.kernel.history import History
from adaptive_batching.simulation.servers.conditions import Crashes
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.traffic.arrival_stream import ArrivalStream
from adaptive_batching.simulation.traffic.arrivals import poisson
from tests.simulation.kernel.test_engine import HoldUntil

SERVER = Server(1.0, 0.0)
LIMITS = Limits(64)


def play(fleet, times, workers, policy="greedy", *, server=SERVER, limits=LIMITS, **more):
    history = History()
    experiment = Experiment(times, server, limits, fleet=fleet, **more)
    experiment.play(policy, workers, history)
    return history


def answers(history):
    return [(job.arrived, job.finished) for job in sorted(history.jobs)]


def test_requests_are_dealt_in_turn():
    """The third waits for its own dispatcher's worker, though the other one will be free first."""
    history = play(Fleet(2), [0.0, 0.1, 0.2, 0.3], 2)
    assert answers(history) == [(0.0, 1.0), (0.1, 1.1), (0.2, 2.0), (0.3, 2.1)]


def test_who_has_the_fewest_under_way_gets_the_next():
    """One of three that come together doubles up; what comes next goes to the other."""
    server = Server(0.0, 1.0)
    history = play(Fleet(2, "least"), [0.0, 0.0, 0.0, 0.5], 2, server=server)
    assert answers(history) == [(0.0, 1.0), (0.0, 2.0), (0.0, 2.0), (0.5, 2.0)]


def test_lots_are_the_same_for_the_same_seed():
    """And others for another one; every dispatcher gets its share."""
    times = poisson(200.0, 2.0, seed=1)

    def ends(seed):
        return answers(play(Fleet(2, "random"), times, 2, seed=seed))

    assert ends(1) == ends(1) != ends(2)


def test_several_in_front_of_the_same_workers():
    """Each believes the one worker to be free: what it releases waits there for its turn."""
    history = play(Fleet(3, shared=True), [0.0, 0.1, 0.2], 1)
    assert [batch.released for batch in history.batches] == [0.0, 0.1, 0.2]
    assert answers(history) == [(0.0, 1.0), (0.1, 2.0), (0.2, 3.0)]


def test_what_waits_at_the_workers_seems_to_take_longer():
    """A dispatcher can't tell waiting there from work, so its batches' durations hold both."""
    history = play(Fleet(3, shared=True), [0.0, 0.0, 0.0], 1)
    assert [batch.duration for batch in history.batches] == [1.0, 2.0, 3.0]


def test_workers_are_dealt_out():
    """Five for two dispatchers: three for the first, two for the second."""
    history = play(Fleet(2), [0.0] * 10, 5, limits=Limits(1))
    assert sorted(job.finished for job in history.jobs) == [1.0] * 5 + [2.0] * 4 + [3.0]


@given(
    policy=st.sampled_from(["cork", "greedy", "window:2ms"]),
    workers=st.integers(1, 3),
    loop_delay=st.sampled_from([0.0, 1e-3]),
    keys=st.none() | st.just(Lots(3)),
    retries=st.sampled_from([None, Retries(2), Retries(2, 0.0), Retries(3, 10e-3)]),
)
def test_a_fleet_of_one_is_the_single_dispatcher(policy, workers, loop_delay, keys, retries):
    """To the last bit, though another loop drives it and another pool runs its batches."""
    times = poisson(workers * 6_000.0, 0.1, seed=1)
    server = Server(5e-3, 5e-5, jitter=0.2, conditions=(Crashes(0.1, 10e-3),))
    limits = Limits(64, 25e-3)

    def history(fleet):
        told = History()
        feed, service = ArrivalStream(times, keys=keys), server.service(1)
        schedulers = fleet.schedulers(policy, limits, workers)
        options = {"loop_delay": loop_delay, "retries": retries}
        return drive(feed, schedulers, service, told, fleet=fleet, **options), told

    assert history(Fleet(1)) == history(Fleet(1, shared=True))


@given(
    dispatchers=st.integers(2, 5),
    balance=st.sampled_from(["in-turn", "random", "least"]),
    shared=st.booleans(),
    policy=st.sampled_from(["cork", "greedy", "window:2ms", "nexus"]),
    max_latency=st.sampled_from([8e-3, 25e-3]),
    crashes=st.sampled_from([0.0, 0.3]),
    retries=st.sampled_from([None, Retries(2), Retries(2, 0.0), Retries(3, 10e-3)]),
)
def test_each_job_ends_once(dispatchers, balance, shared, policy, max_latency, crashes, retries):
    """Whatever happens, there is one record for each arrival, and no batch is too large."""
    times = poisson(4_000.0, 0.1, seed=dispatchers)
    server = Server(5e-3, 2e-4, conditions=(Crashes(crashes, 10e-3),))
    history = play(
        Fleet(dispatchers, balance, shared),
        times,
        dispatchers,
        policy,
        server=server,
        limits=Limits(8, max_latency),
        retries=retries,
    )
    assert sorted(job.arrived for job in history.jobs) == times.tolist()
    assert all(batch.size <= 8 for batch in history.batches)


def test_who_is_refused_is_dealt_out_anew():
    """The first dispatcher is busy and its queue is full; the second takes the next attempt."""
    limits = Limits(max_batch_size=1, max_queue=1)
    times = [0.0, 0.1, 0.2, 1.1, 1.2]  # to the first, second, first (waits), second, first
    refused = play(Fleet(2), times, 2, server=Server(2.0, 0.0), limits=limits)
    assert [job.outcome for job in sorted(refused.jobs)].count(JobOutcome.QUEUE_FULL) == 1
    experiment = Experiment(
        times, Server(2.0, 0.0), limits, fleet=Fleet(2), retries=Retries(1, 0.0)
    )
    row = experiment.run("greedy", 2)
    assert (row.requests, row.sent_again) == (5, 1)


def test_users_of_several_dispatchers():
    """A closed loop goes round, whoever answers."""
    loop = ClosedLoop(16, 0.5, Span(0.0, 0.0), Span(1e-3, 2e-3))
    history = play(Fleet(2), loop, 2, server=Server(5e-3, 0.0))
    assert len(history.jobs) > 16 * 20


def test_a_dead_worker_is_missing_for_all_who_share_it():
    """The batch of the second dispatcher waits until it is back."""
    history = play(
        Fleet(2, shared=True),
        [0.0, 5.0],
        1,
        server=Server(1.0, 0.0, conditions=(Crashes(1.0, 30.0),)),
    )
    first, second = sorted(history.jobs)
    assert (first.outcome, second.outcome) == (JobOutcome.FAILED, JobOutcome.FAILED)
    assert second.finished > 30.0


def test_a_policy_for_each():
    """One object can't decide for two queues that know nothing of each other."""
    with pytest.raises(ValueError, match=r"policy: expected a name or a class, .* got <"):
        play(Fleet(2), [0.0], 2, Greedy())
    assert len(play(Fleet(2), [0.0], 2, Greedy).jobs) == 1


def test_too_few_workers():
    """A dispatcher without any would never answer."""
    with pytest.raises(ValueError, match="at least one for each of 3 dispatchers, got 2"):
        play(Fleet(3), [0.0], 2)
    with pytest.raises(ValueError, match="dispatchers: expected 1 or more, got 0"):
        Fleet(0)


def test_a_policy_that_holds_for_ever_is_named():
    """As with one dispatcher."""
    with pytest.raises(PolicyError, match="1 items left, got a Hold for ever"):
        play(Fleet(2), [0.0], 2, lambda: HoldUntil(float("inf")))


def test_keys_and_deadlines_go_with_the_request():
    """To whichever dispatcher it is dealt."""
    jobs = play(Fleet(2), [0.0, 0.1], 2, keys=["a", "b"], max_latencies=[0.5, 2.0]).jobs
    assert [(job.key, job.deadline, job.in_time) for job in jobs] == [
        ("a", 0.5, False),
        ("b", 0.1 + 2.0, True),
    ]


@pytest.mark.parametrize(
    "options",
    [{"loop_delay": 2e-3}, {"fleet": Fleet(2, shared=True)}],
    ids=["a loop that is always late", "two dispatchers on the same workers"],
)
def test_cork_answers_all_in_time_once_it_has_learned(options):
    """At 64 % load within 25 ms, though it notices everything late, or can't know who is idle: what
    it loses, it loses at the start.
    """
    arrivals, server = poisson(20_000, 0.8, seed=0), Server(5e-3, 0.05e-3, jitter=0.1)
    row = Experiment(arrivals, server, Limits(64, 25e-3), warmup=0.3, **options).run("cork", 4)
    assert row.goodput == 1.0
