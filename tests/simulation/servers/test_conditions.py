"""What happens to workers happens when it should, to whom it should."""

import pytest

from adaptive_batching.core import JobOutcome, Limits, Outcome, Scheduler, make_policy
from adaptive_batching.simulation.kernel.engine import simulate
from adaptive_batching.simulation.servers.condition_texts import (
    parse_cold_start,
    parse_crashes,
    parse_drift,
    parse_failures,
    parse_key_costs,
    parse_pauses,
    parse_shared,
)
from adaptive_batching.simulation.servers.conditions import (
    ColdStart,
    Crashes,
    Drift,
    Failures,
    KeyCosts,
    Pauses,
    SharedDevice,
)
from adaptive_batching.simulation.servers.runs import Run
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.simulation.traffic.arrivals import poisson


def play(*conditions, times=(0.0, 10.0, 20.0), workers=1, seed=0):
    server = Server(1.0, 0.0, conditions=conditions)
    scheduler = Scheduler(make_policy("greedy"), Limits(1), workers)
    return simulate(times, scheduler, server.service(seed))


def durations(history):
    return [batch.duration for batch in sorted(history.batches, key=lambda b: b.released)]


def test_a_step():
    """From its instant on, batches that begin take twice as long."""
    assert durations(play(Drift(2.0, 10.0))) == [1.0, 2.0, 2.0]


def test_a_ramp():
    """Halfway through it, half of the change is done."""
    change = Drift(3.0, 10.0, 10.0).begin(0)
    times = (9.0, 10.0, 15.0, 20.0, 99.0)
    assert [change(Run(1.0, now, 0)).seconds for now in times] == [1, 1, 2, 3, 3]


def test_keys_that_cost_more():
    """A batch takes as many times as long as its key costs; other keys cost what the model says."""
    change = KeyCosts({0: 1, "bert": 8}).begin(0)
    keys = (0, "bert", "resnet", None)
    assert [change(Run(1.0, 0.0, 0, key=key)).seconds for key in keys] == [1, 8, 1, 1]


def test_batches_are_known_by_their_key():
    """Two keys of which the second costs three times as much, on one worker, one after another."""
    server = Server(1.0, 0.0, conditions=(KeyCosts({"a": 1, "b": 3}),))
    scheduler = Scheduler(make_policy("greedy"), Limits(8), 1)
    history = simulate((0.0, 10.0, 20.0), scheduler, server.service(), keys=("a", "b", "a"))
    assert durations(history) == [1.0, 3.0, 1.0]


def seconds(pauses, runs, seed=0, worker=0):
    """How long batches take that begin at some instants and take so long without pauses."""
    change = pauses.begin(seed)
    return [change(Run(length, now, 0, worker)).seconds for now, length in runs]


def test_pauses_strike_time():
    """A hundred seconds of work meet as many pauses in one batch as in a thousand of them."""
    pauses = Pauses(0.5, 2.0)
    [large] = seconds(pauses, [(0.0, 100.0)])
    now, change = 0.0, pauses.begin(0)
    for _ in range(1000):
        now += change(Run(0.1, now, 0)).seconds
    assert large == pytest.approx(now)
    assert large == pytest.approx(125, rel=0.1)


def test_a_pause_that_no_batch_meets_is_over():
    """A worker that is idle stands still as well: what begins in a pause waits for its rest."""
    pauses = Pauses(1.0, 5.0)
    met = next(at / 100 for at in range(9000) if seconds(pauses, [(0.0, at / 100)]) > [at / 100])
    assert seconds(pauses, [(met + 0.5, 0.1)]) == [pytest.approx(0.6, abs=0.02)]
    assert seconds(pauses, [(met + 1.1, 0.1)]) == [0.1]


def test_pauses_are_the_same_for_a_seed_and_others_on_each_worker():
    """Whatever a policy did before, at an instant the worker stands still or does not."""
    pauses, late = Pauses(1.0, 5.0), [(200.0, 50.0)]
    before = [(at / 2, 0.25) for at in range(400)]
    assert seconds(pauses, before + late)[-1] == pytest.approx(seconds(pauses, late)[0])
    assert seconds(pauses, late, seed=1) != seconds(pauses, late)
    assert seconds(pauses, late, worker=1) != seconds(pauses, late)


def test_changes_add_up():
    """A change and its end: twice as long, and then as before."""
    assert durations(play(Drift(2.0, 10.0), Drift(0.5, 20.0))) == [1.0, 2.0, 1.0]


def test_a_cold_start():
    """The first two take longer, in every simulation anew."""
    condition = ColdStart(2, 5.0)
    assert durations(play(condition)) == durations(play(condition)) == [6.0, 6.0, 1.0]


def test_failures():
    """A batch fails at its end and its jobs with it; its duration teaches nothing."""
    history = play(Failures(1.0))
    assert [job.outcome for job in history.jobs] == [JobOutcome.FAILED] * 3
    assert {batch.outcome for batch in history.batches} == {Outcome.FAILED}
    assert durations(history) == [1.0] * 3


def test_a_crash():
    """A worker dies in the midst of its batch: its jobs fail, and it is missing for a while."""
    history = play(Crashes(1.0, 30.0), times=(0.0, 1.0))
    first, second = history.batches
    assert [job.outcome for job in history.jobs] == [JobOutcome.FAILED] * 2
    assert 0.0 < first.finished < 1.0
    assert second.released == first.finished + 30.0


def test_nobody_waits_in_vain_for_a_dead_worker():
    """Who is due before it is back is turned away at once, as the live dispatcher does."""
    server = Server(1.0, 0.0, conditions=(Crashes(1.0, 30.0),))
    scheduler = Scheduler(make_policy("greedy"), Limits(1, 20.0), 1)
    patience = [20.0, 20.0, 20.0, 99.0]
    history = simulate((0.0, 0.0, 5.0, 6.0), scheduler, server.service(), max_latencies=patience)
    died = history.batches[0].finished
    ends = [(job.arrived, job.finished, job.outcome) for job in history.jobs]
    assert ends[:3] == [
        (0.0, died, JobOutcome.SHED),
        (0.0, died, JobOutcome.FAILED),
        (5.0, 5.0, JobOutcome.SHED),
    ]
    assert history.batches[1].released == died + 30.0


def test_the_others_go_on():
    """With two workers, the death of one leaves the other: capacity shrinks and comes back."""
    server = Server(1.0, 0.0, conditions=(Crashes(0.3, 5.0),))
    scheduler = Scheduler(make_policy("greedy"), Limits(1), 2)
    history = simulate([index / 2 for index in range(40)], scheduler, server.service(seed=1))
    ends = {job.outcome for job in history.jobs}
    assert ends == {JobOutcome.DONE, JobOutcome.FAILED}
    assert scheduler.permits.capacity == 2


def test_some_fail():
    """About as many as asked for, the same ones for the same seed."""
    times = poisson(1.0, 4000.0, seed=1)

    def failed(seed):
        ended = play(Failures(0.25), times=times, workers=50, seed=seed).batches
        return [batch.outcome is Outcome.FAILED for batch in ended]

    assert sum(failed(1)) == pytest.approx(1000, rel=0.1)
    assert failed(1) == failed(1) != failed(2)


def test_workers_on_one_device():
    """Whoever begins beside another takes longer; who began alone keeps his pace."""
    assert durations(play(SharedDevice(0.5), times=(0.0, 0.5, 9.0), workers=2)) == [1.0, 1.5, 1.0]


def test_cork_survives_a_step():
    """Batches twice as long at half load: after learning it all are answered in time again."""
    server = Server(5e-3, 5e-5, conditions=(Drift(2.0, 1.0),))
    scheduler = Scheduler(make_policy("cork"), Limits(64, 50e-3), 1)
    history = simulate(poisson(2000.0, 3.0, seed=1), scheduler, server.service())
    late = [job for job in history.jobs if job.arrived > 1.5]
    in_time = [job for job in late if job.outcome is JobOutcome.DONE and job.latency <= 50e-3]
    assert len(in_time) > 0.99 * len(late)


def test_spellings():
    """As people type them."""
    assert parse_drift("2x@6s") == Drift(2.0, 6.0)
    assert parse_drift("0.5x@6s-20s") == Drift(0.5, 6.0, 14.0)
    assert parse_drift("3:2x@6s") == Drift(2.0, 6.0, worker=3)
    assert parse_key_costs("1,2.5") == KeyCosts({0: 1.0, 1: 2.5})
    assert parse_key_costs("a=1,b=c=8") == KeyCosts({"a": 1.0, "b=c": 8.0})
    assert parse_pauses("10ms/2s") == Pauses(0.01, 2.0)
    assert parse_cold_start("5:200ms") == ColdStart(5, 0.2)
    assert parse_failures("0.5%") == Failures(0.005)
    assert parse_crashes("0.1%:2s") == Crashes(0.001, 2.0)
    assert parse_shared("30%") == SharedDevice(0.3)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_drift, "2@6s"), (parse_drift, "2x"), (parse_drift, "2x@6"), (parse_drift, "0x@6s"),
        (parse_drift, "2x@6s-5s"), (parse_cold_start, "5"), (parse_cold_start, "x:5ms"),
        (parse_cold_start, "5:5"), (parse_failures, "0.5"), (parse_failures, "101%"),
        (parse_crashes, "1%"), (parse_crashes, "1:2s"), (parse_crashes, "1%:2"),
        (parse_shared, "half"), (parse_shared, "-1%"),
    ],
)  # fmt: skip
def test_misspellings(parse, text):
    """Refused with what was expected and what came."""
    with pytest.raises(ValueError, match="expected"):
        parse(text)


def test_impossible_numbers():
    """The quantity is named."""
    with pytest.raises(ValueError, match="drift: expected a positive factor"):
        Drift(float("nan"), 1.0)
    with pytest.raises(ValueError, match="shared: expected a share of 0 or more"):
        SharedDevice(float("inf"))
    with pytest.raises(ValueError, match="failures: expected a share of 0 to 1"):
        Failures(2.0)
    with pytest.raises(ValueError, match="crashes: expected a share of 0 to 1"):
        Crashes(2.0, 1.0)
    with pytest.raises(ValueError, match="crashes: expected 0 seconds or more to restart"):
        Crashes(0.1, -1.0)


def test_a_drift_of_one_worker():
    """The others go on as they were."""
    server = Server(1.0, 0.0, conditions=(Drift(3.0, 1.0, worker=1),))
    scheduler = Scheduler(make_policy("greedy"), Limits(1), workers=2)
    history = simulate([0.0, 0.0, 2.0, 2.0], scheduler, server.service())
    assert sorted((each.worker, each.duration) for each in history.batches) == [
        (0, 1.0), (0, 1.0), (1, 1.0), (1, 3.0),
    ]  # fmt: skip
