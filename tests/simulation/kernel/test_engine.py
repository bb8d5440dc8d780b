"""The engine keeps the rules of the live driver, on a clock that is exact."""

from math import inf, nan, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.core import (
    BatchRecord,
    Dispatch,
    Hold,
    JobOutcome,
    Limits,
    Reason,
    Scheduler,
    Situation,
    make_policy,
)
from adaptive_batching.errors import PolicyError
from adaptive_batching.simulation.clients.closed_loop import ClosedLoop, Span
from adaptive_batching.simulation.kernel.engine import simulate
from adaptive_batching.simulation.kernel.history import History
from adaptive_batching.simulation.servers.servers import Server


def scheduler(policy="greedy", workers=1, **limits):
    return Scheduler(make_policy(policy), Limits(**limits), workers)


def releases(history: History):
    return [(batch.released, batch.size) for batch in history.batches]


def outcomes(history: History):
    return [(job.arrived, job.finished, job.outcome) for job in history.jobs]


class HoldUntil:
    """Holds until a fixed instant, and remembers when it was asked."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.asked: list[float] = []

    def decide(self, situation: Situation):
        self.asked.append(situation.now)
        return Dispatch(64, Reason.TIMEOUT) if situation.now >= self.until else Hold(self.until)

    def observe(self, batch: BatchRecord) -> None:
        pass


# ------------------------------------------------------------------------------------ batches


def test_nothing_arrives():
    """No traffic, no records."""
    assert simulate([], scheduler(), lambda _: 1.0) == History()


def test_a_batch_ends_exactly_when_its_time_is_over():
    """Released at t and taking d, it ends at t + d to the last bit."""
    history = simulate([0.1], scheduler(), lambda _: 0.2)
    assert outcomes(history) == [(0.1, 0.1 + 0.2, JobOutcome.DONE)]
    assert history.batches[0].finished == 0.1 + 0.2


def test_what_arrives_together_leaves_together():
    """All arrivals of an instant are in before the policy is asked."""
    history = simulate([1.0, 1.0, 1.0], scheduler(), lambda _: 1.0)
    assert releases(history) == [(1.0, 3)]


def test_what_arrives_while_all_are_busy_leaves_when_a_worker_is_free():
    """Greedy on one worker: the queue leaves at the end of the batch before."""
    history = simulate([0.0, 0.25, 0.5], scheduler(), lambda _: 1.0)
    assert releases(history) == [(0.0, 1), (1.0, 2)]


def test_ends_come_before_arrivals_of_the_same_instant():
    """A worker that is free just now takes a job that arrives just now."""
    history = simulate([0.0, 1.0], scheduler(), lambda _: 1.0)
    assert releases(history) == [(0.0, 1), (1.0, 1)]
    assert history.batches[1].finished == 2.0


def test_each_worker_takes_a_batch():
    """Two workers run two batches, the third waits for the first to end."""
    history = simulate([0.0, 0.1, 0.2], scheduler(workers=2), lambda _: 1.0)
    assert releases(history) == [(0.0, 1), (0.1, 1), (1.0, 1)]


def test_a_queue_longer_than_a_batch_leaves_in_order():
    """Full batches first, then the rest; none is overtaken."""
    history = simulate([0.0] * 5, scheduler(workers=2, max_batch_size=2), lambda _: 1.0)
    assert releases(history) == [(0.0, 2), (0.0, 2), (1.0, 1)]


def test_batches_that_take_no_time():
    """Service times of zero end in the instant of their release."""
    history = simulate([1.0] * 3, scheduler(max_batch_size=1), lambda _: 0.0)
    assert releases(history) == [(1.0, 1)] * 3
    assert {job.finished for job in history.jobs} == {1.0}


def test_sizes_count_items():
    """A batch holds items, and its service time is that of its items."""
    limits = {"max_batch_size": 4}
    history = simulate([0.0] * 3, scheduler(**limits), lambda size: size, sizes=[3, 1, 2])
    assert releases(history) == [(0.0, 4), (4.0, 2)]
    assert [job.size for job in history.jobs] == [3, 1, 2]


# ------------------------------------------------------------------------------------- timers


def test_the_wake_up_is_at_the_instant_of_the_hold():
    """A window of 2 s from the arrival ends at arrival + 2 s."""
    history = simulate([0.3, 1.0], scheduler("window:2s"), lambda _: 1.0)
    assert releases(history) == [(0.3 + 2.0, 2)]
    assert history.batches[0].reason is Reason.TIMEOUT


def test_one_decision_an_instant():
    """The policy is asked at arrivals and at the wake-up, never in between."""
    policy = HoldUntil(2.0)
    simulate([0.5, 0.5, 1.0], Scheduler(policy, Limits()), lambda _: 1.0)
    assert policy.asked == [0.5, 1.0, 2.0]


def test_a_wake_up_at_the_instant_of_an_arrival_is_one_decision():
    """The job that arrives at the wake-up joins the batch."""
    history = simulate([0.0, 2.0], scheduler("window:2s"), lambda _: 1.0)
    assert releases(history) == [(2.0, 2)]


def test_a_coarse_timer_fires_at_its_next_tick():
    """With a resolution of 0.5 s, a hold until 1.2 s ends at 1.5 s."""
    policy = HoldUntil(1.2)
    simulate([0.0], Scheduler(policy, Limits()), lambda _: 1.0, timer_resolution=0.5)
    assert policy.asked == [0.0, 1.5]


def test_a_coarse_timer_does_not_delay_a_hold_until_its_tick():
    """A hold until a multiple of the resolution ends there."""
    policy = HoldUntil(1.5)
    simulate([0.0], Scheduler(policy, Limits()), lambda _: 1.0, timer_resolution=0.5)
    assert policy.asked == [0.0, 1.5]


@given(
    until=st.floats(1e-6, 1e6),
    resolution=st.floats(1e-6, 1.0),
)
def test_no_timer_fires_early(until, resolution):
    """Whatever the rounding, a wake-up is never before its instant: there is one, not many."""
    policy = HoldUntil(until)
    simulate([0.0], Scheduler(policy, Limits()), lambda _: 1.0, timer_resolution=resolution)
    assert len(policy.asked) == 2


def test_a_late_loop_notices_everything_later():
    """The job at 1.0 is seen at 1.25 and answered after 2 s, which is seen 0.25 s later again."""
    history = simulate([1.0], scheduler(), lambda _: 2.0, loop_delay=0.25)
    assert releases(history) == [(1.25, 1)]
    assert outcomes(history) == [(1.0, 3.5, JobOutcome.DONE)]


def test_a_late_loop_rings_late():
    """A window of 2 s from the moment when the job was seen, and half a second more."""
    history = simulate([0.0], scheduler("window:2s"), lambda _: 1.0, loop_delay=0.5)
    assert releases(history) == [(0.5 + 2.0 + 0.5, 1)]


def test_a_late_loop_breaks_promises():
    """Latency counts from the arrival, which the dispatcher did not see at once."""
    job = simulate([0.0], scheduler(max_latency=1.0), lambda _: 1.0, loop_delay=0.25).jobs[0]
    assert (job.latency, job.deadline, job.in_time) == (1.5, 1.0, False)


@pytest.mark.parametrize("name", ["timer_resolution", "loop_delay"])
@pytest.mark.parametrize("seconds", [-1.0, nan, inf])
def test_impossible_loops(name, seconds):
    """Neither time nor timers run backwards."""
    with pytest.raises(ValueError, match=r"loop .*: expected finite seconds of 0 or more"):
        simulate([], scheduler(), lambda _: 1.0, **{name: seconds})


def test_a_policy_that_holds_for_ever_is_named():
    """Live it would hang; in virtual time it is an error."""
    with pytest.raises(PolicyError, match="2 items left, got a Hold for ever"):
        simulate([0.0, 1.0], Scheduler(HoldUntil(inf), Limits()), lambda _: 1.0)


# --------------------------------------------------------------------------- lateness and refusal


def test_a_job_expires_at_its_deadline_while_all_are_busy():
    """It is given up at the very instant, not when a worker is free."""
    history = simulate([0.0, 0.1], scheduler(max_latency=2.0), lambda _: 5.0)
    assert outcomes(history) == [
        (0.1, 0.1 + 2.0, JobOutcome.EXPIRED),
        (0.0, 5.0, JobOutcome.DONE),
    ]


def test_a_deadline_of_its_own():
    """max_latency may differ from what the policy was told."""
    history = simulate([0.0, 0.1], scheduler(), lambda _: 5.0, max_latency=1.0)
    assert outcomes(history)[0] == (0.1, 0.1 + 1.0, JobOutcome.EXPIRED)


def test_each_job_has_a_deadline_of_its_own():
    """NaN stands for the usual one; the impatient go first, and only then those before them."""
    patience = [nan, nan, 1.0, 3.0]
    limits = scheduler(max_latency=2.0)
    history = simulate([0.0, 0.25, 0.5, 0.75], limits, lambda _: 9.0, max_latencies=patience)
    ends = [(job.arrived, job.finished, job.deadline) for job in history.jobs]
    assert ends == [(0.5, 1.5, 1.5), (0.25, 2.25, 2.25), (0.75, 3.75, 3.75), (0.0, 9.0, 2.0)]


def test_keys_share_no_batch():
    """Two keys, two batches; who is due first goes first."""
    history = simulate(
        [0.0, 0.0, 0.0], scheduler(max_latency=9.0), lambda _: 1.0, keys=["a", "b", "a"]
    )
    assert [(batch.key, batch.size) for batch in history.batches] == [("a", 2), ("b", 1)]
    assert [job.key for job in history.jobs] == ["a", "a", "b"]


def test_jobs_expire_one_after_the_other_while_all_are_busy():
    """The wake-up is armed again for the next deadline."""
    history = simulate([0.0, 0.25, 0.5, 0.75], scheduler(max_latency=1.0), lambda _: 9.0)
    assert [job.finished for job in history.jobs] == [1.25, 1.5, 1.75, 9.0]


def test_a_coarse_timer_gives_up_late():
    """Live, an expiry is seen at the timer's tick as well."""
    limits = scheduler(max_latency=1.0)
    history = simulate([0.0, 0.1], limits, lambda _: 9.0, timer_resolution=0.5)
    assert outcomes(history)[0] == (0.1, 1.5, JobOutcome.EXPIRED)


def test_a_full_queue_refuses_at_the_door():
    """The record ends when it begins."""
    history = simulate([0.0, 0.1, 0.2], scheduler(max_queue=1), lambda _: 1.0)
    assert outcomes(history)[0] == (0.2, 0.2, JobOutcome.QUEUE_FULL)


def test_more_items_than_a_batch_may_hold_are_shed():
    """It would never fit, so it is refused."""
    history = simulate([0.0], scheduler(max_batch_size=2), lambda _: 1.0, sizes=[3])
    assert outcomes(history) == [(0.0, 0.0, JobOutcome.SHED)]


def test_cork_sheds_under_overload():
    """Twice what the workers can take: some are answered in time and the others refused."""
    times = [index / 20_000 for index in range(20_000)]
    history = simulate(times, scheduler("cork", max_latency=0.025), Server(5e-3, 5e-5).service())
    ends = {outcome for _, _, outcome in outcomes(history)}
    assert {JobOutcome.DONE, JobOutcome.SHED} <= ends


# ------------------------------------------------------------------------------------ contracts


@pytest.mark.parametrize("duration", [-1.0, nan, inf])
def test_an_impossible_service_time(duration):
    """It is named with what was expected."""
    with pytest.raises(ValueError, match=r"service: expected finite seconds .* batch of 1, got"):
        simulate([0.0], scheduler(), lambda _: duration)


def test_a_service_time_beyond_all_numbers():
    """A batch that would end at infinity would never end."""
    with pytest.raises(ValueError, match="service: expected finite seconds"):
        simulate([1e308], scheduler(), lambda _: 1.7e308)


@pytest.mark.parametrize("times", [[0.0, nan], [inf], [-inf, 0.0]])
def test_arrivals_are_finite(times):
    """The clock can't go there."""
    with pytest.raises(ValueError, match="arrivals: expected finite seconds"):
        simulate(times, scheduler(), lambda _: 1.0)


def test_arrivals_come_in_order():
    """The first that is out of order is named."""
    with pytest.raises(ValueError, match=r"expected times in order, got 1\.0 after 2\.0"):
        simulate([0.0, 2.0, 1.0], scheduler(), lambda _: 1.0)


def test_a_size_for_each_arrival():
    """Neither more nor fewer."""
    with pytest.raises(ValueError, match="expected one for each of 2 arrivals, got 1"):
        simulate([0.0, 1.0], scheduler(), lambda _: 1.0, sizes=[1])


scenarios = st.fixed_dictionaries(
    {
        "times": st.lists(st.floats(0, 0.2), max_size=120).map(sorted),
        "sizes": st.lists(st.integers(1, 5), min_size=120, max_size=120),
        "policy": st.sampled_from(
            ["cork", "greedy", "aimd", "window:2ms", "deferred", "bentoml", "bentoml:0"]
        ),
        "workers": st.integers(1, 4),
        "max_batch_size": st.integers(4, 16),
        "max_latency": st.sampled_from([inf, 0.025, 0.008]),
        "max_queue": st.sampled_from([16, 65_536]),
        "jitter": st.sampled_from([0.0, 0.3]),
        "resolution": st.sampled_from([0.0, 1e-3]),
        "delay": st.sampled_from([0.0, 1e-3]),
        "keys": st.none() | st.lists(st.integers(0, 2), min_size=120, max_size=120),
        "patience": st.none()
        | st.lists(st.sampled_from([nan, 7e-3, 0.05]), min_size=120, max_size=120),
    }
)


def play(scenario) -> History:
    limits = Limits(*(scenario[name] for name in ("max_batch_size", "max_latency", "max_queue")))
    return simulate(
        scenario["times"],
        Scheduler(make_policy(scenario["policy"]), limits, scenario["workers"]),
        Server(5e-3, 2e-4, scenario["jitter"]).service(seed=7),
        sizes=scenario["sizes"][: len(scenario["times"])],
        timer_resolution=scenario["resolution"],
        **some_are_special(scenario),
    )


def some_are_special(scenario):
    """What jobs may have besides their time and size, and the loop besides its timers."""
    number = len(scenario["times"])
    columns = {"keys": scenario["keys"], "max_latencies": scenario["patience"]}
    special = {name: each and each[:number] for name, each in columns.items()}
    return {**special, "loop_delay": scenario["delay"]}


@given(scenarios)
def test_each_job_ends_once(scenario):
    """Whatever happens, there is one record for each arrival, with its own time and size."""
    history = play(scenario)
    arrived = zip(scenario["times"], scenario["sizes"], strict=False)
    assert sorted((job.arrived, job.size) for job in history.jobs) == sorted(arrived)
    assert all(job.finished >= job.arrived for job in history.jobs)


@given(scenarios)
def test_no_limit_is_passed(scenario):
    """Neither max_batch_size nor the number of workers."""
    history = play(scenario)
    changes = [(nextafter(batch.released, inf), 1) for batch in history.batches]
    changes += [(batch.finished, -1) for batch in history.batches]
    running = 0
    for _, change in sorted(changes):
        running += change
        assert running <= scenario["workers"]
    for batch in history.batches:
        assert batch.size <= scenario["max_batch_size"]


@given(scenarios)
def test_equal_promises_are_served_first_in_first_out(scenario):
    """Batches of one key in the order of release hold jobs in the order of arrival."""
    scenario = {**scenario, "patience": None}
    # Records come in the order of ends, which does not tell apart what left at one instant.
    batches = sorted(play(scenario).batches, key=lambda b: (b.released, b.oldest_arrived))
    for key in {batch.key for batch in batches}:
        oldest = [batch.oldest_arrived for batch in batches if batch.key == key]
        assert oldest == sorted(oldest)
    assert all(batch.oldest_arrived <= batch.released for batch in batches)


@given(scenarios)
def test_the_same_again(scenario):
    """Same traffic and same seed: the same records to the last bit."""
    assert play(scenario) == play(scenario)


class Naive:
    """The loop as the live driver has it: `next` after every instant, busy or not."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def __getattr__(self, name: str):
        return getattr(self.scheduler, name)

    @property
    def permits(self):
        workers = self.scheduler.permits.workers
        return type("AlwaysIdle", (), {"idle": 1, "capacity": 1, "workers": workers})


@given(scenarios)
def test_running_ahead_changes_nothing(scenario):
    """Submitting ahead of the clock while all are busy is an optimisation and nothing else."""
    limits = Limits(*(scenario[name] for name in ("max_batch_size", "max_latency", "max_queue")))

    def history(wrap):
        inner = Scheduler(make_policy(scenario["policy"]), limits, scenario["workers"])
        server = Server(5e-3, 2e-4, scenario["jitter"]).service(seed=7)
        return simulate(
            scenario["times"],
            wrap(inner),
            server,
            timer_resolution=scenario["resolution"],
            **some_are_special(scenario),
        )

    assert history(lambda scheduler: scheduler) == history(Naive)


@given(
    users=st.integers(1, 40),
    policy=st.sampled_from(["cork", "greedy", "window:2ms"]),
    workers=st.integers(1, 3),
    max_latency=st.sampled_from([inf, 0.025, 0.008]),
    max_queue=st.sampled_from([8, 65_536]),
)
def test_running_ahead_changes_nothing_for_users(users, policy, workers, max_latency, max_queue):
    """Neither where answers and refusals bring the next arrivals."""
    limits = Limits(8, max_latency, max_queue)

    def history(wrap):
        loop = ClosedLoop(users, 0.2, Span(0.0, 1e-3), Span(0.3e-3, 2.3e-3), seed=1)
        inner = Scheduler(make_policy(policy), limits, workers)
        return simulate(loop, wrap(inner), Server(5e-3, 2e-4).service())

    assert history(lambda scheduler: scheduler) == history(Naive)
