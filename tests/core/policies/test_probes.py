"""Batches that test what is known of a key, where it says that the key can't keep its promise."""

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import pytest

from adaptive_batching.core import Batch, Job, Limits, Outcome, Reason, Scheduler, Shed
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.errors import Overloaded
from adaptive_batching.simulation import (
    ColdStart,
    Experiment,
    History,
    KeyCosts,
    Lots,
    Server,
    clumped,
    poisson,
)
from adaptive_batching.simulation.servers.runs import Change
from tests.core.steps import having_run, released, submit

PROMISE = 25e-3


def some_dear(workers: int = 1) -> Scheduler:
    """The line of all keys lies above the promise because one is dear; another may be cheap."""
    scheduler = having_run({"cheap": 1.0, "dear": 60.0}, 100, workers)
    scheduler.retune(Cork(), Limits(64, PROMISE))
    assert scheduler.latency.predict(1) > PROMISE
    return scheduler


def offer(scheduler: Scheduler, key: str, now: float, patience: float = PROMISE) -> None:
    """A job comes, which may be turned away."""
    with suppress(Overloaded):
        scheduler.submit(Job(now, deadline=now + patience, key=key))


def left(scheduler: Scheduler, now: float) -> Batch | None:
    """The batch that leaves now, if one does."""
    while isinstance(step := scheduler.next(now), Shed):
        pass
    return step if isinstance(step, Batch) else None


def test_a_key_that_seems_hopeless_is_tried_again_ever_more_rarely() -> None:
    """Its cold batches take longer than is promised: one tells for as long as one takes."""
    scheduler, now, cold = Scheduler(Cork(), Limits(8, 30e-3)), 0.0, list[float]()
    for _ in range(2_000):
        for key in ("warm", "cold"):
            now += 15e-3
            offer(scheduler, key, now, 30e-3)
            batch = left(scheduler, now)
            if batch is None:
                continue
            if batch.key == "cold" and len(cold) < 10:
                cold.append(now)
                assert batch.reason is Reason.PROBE or len(cold) <= 5
                now += 60e-3
            scheduler.finish(batch, Outcome.DONE, max(now, batch.released + 10e-3))
    pauses = [later - earlier for earlier, later in pairwise(cold)]
    assert pauses[6:] == pytest.approx([60e-3 * probes for probes in (6, 7, 8)], abs=30e-3)
    assert scheduler.line("cold").predict(1) == pytest.approx(10e-3, rel=0.2)


def test_a_key_whose_batches_fail_is_tried_ever_more_rarely() -> None:
    """Nothing is learned from them, so that only how many there were can tell."""
    scheduler, seconds, probes = some_dear(), 2.0, 0
    expected = scheduler.latency.predict(1)
    for now in (1e3 + 10e-3 * step for step in range(round(seconds / 10e-3))):
        for key in ("cheap", "bad"):
            offer(scheduler, key, now)
            if (batch := left(scheduler, now)) is not None:
                probes += batch.key == "bad"
                outcome = Outcome.FAILED if batch.key == "bad" else Outcome.DONE
                scheduler.finish(batch, outcome, now + 5.05e-3)
    assert 2 < probes <= 1.0 + (2.0 * seconds / expected) ** 0.5  # after one, two, three times that
    assert scheduler.line("bad").predict(1) > PROMISE


@pytest.mark.parametrize(("rate", "more"), [(172.0, 1.25), (600.0, 1.5)])
def test_a_hopeless_key_takes_no_worker_from_fan_outs_that_come_after_a_silence(
    rate: float, more: float
) -> None:
    """That nothing has left for a while is no reason to try it: nothing had come."""
    server = Server(1e-3, 0.02e-3, conditions=(KeyCosts({1: 8.0}),))
    arrivals = clumped(rate, 2_500 / rate, seed=1, clump=16, within=0.1e-3)
    keys = Lots(8, 1.0, seed=1)
    cork, greedy = (
        Experiment(arrivals, server, Limits(8, 6e-3), keys=keys, seed=1).run(policy, 1)
        for policy in ("cork", "greedy")
    )
    assert cork.goodput
    assert greedy.goodput
    assert cork.goodput >= more * greedy.goodput


def test_a_slow_key_whose_jobs_are_in_a_hurry_is_tried_after_a_silence() -> None:
    """Within `max_latency` its batches would be in time, so that it is never in doubt as a key."""
    scheduler, answered = having_run({"a": 1.0, "b": 1.0, "dear": 8.0}, 300), 0
    scheduler.retune(Cork(), Limits(64, 2.0 * PROMISE))
    for now in (1e3 + 0.1 * step for step in range(100)):
        offer(scheduler, "dear", now)
        if (batch := left(scheduler, now)) is not None:
            scheduler.finish(batch, Outcome.DONE, now + 5.05e-3)
            answered += 1
    assert answered >= 95


def test_a_key_too_slow_for_its_clients_is_tried_beside_others_that_never_pause() -> None:
    """They are in a hurry: its batches would be within `max_latency`, which says nothing then."""
    scheduler, answered = having_run({"busy": 1.0, "dear": 8.0}, 300, workers=2), 0
    scheduler.retune(Cork(), Limits(64, 2.0 * PROMISE))
    for now in (1e3 + 10e-3 * step for step in range(200)):
        for key, patience in (("busy", inf), ("dear", PROMISE)):
            offer(scheduler, key, now, patience)
            if (batch := left(scheduler, now)) is not None:
                scheduler.finish(batch, Outcome.DONE, now + 5.05e-3)
                answered += batch.key == "dear"
    assert answered >= 190


@dataclass(frozen=True, slots=True)
class _Episode:
    """From the first to the third second one key's batches take so many times as long."""

    factor: float

    def begin(self, seed: int) -> Change:
        """Return the effect, which is the same for every seed."""
        return lambda run: run._replace(
            seconds=run.seconds * (self.factor if run.key == 0 and 1.0 <= run.now < 3.0 else 1.0)
        )


@pytest.mark.parametrize(
    ("fixed", "keys", "promise", "factor"),
    [
        pytest.param(5e-3, 3, 50e-3, 20.0, id="far too slow"),
        pytest.param(5e-3, 3, 50e-3, 9.6, id="only too slow for a job that waited"),
        pytest.param(10e-3, 6, 25e-3, 2.8, id="of many the last to have a turn"),
    ],
)
def test_a_key_that_became_fast_is_tried_though_no_worker_is_ever_idle(
    fixed: float, keys: int, promise: float, factor: float
) -> None:
    """One of its jobs waits for a worker as a probe; what that takes opens the key for others."""
    server, seconds = Server(fixed, fixed / 100, conditions=(_Episode(factor),)), 12.0
    arrivals = poisson(1.3 * 16 / (1.16 * fixed), seconds, seed=1)
    limits, lots = Limits(16, promise), Lots(keys, 0.0, seed=1)
    experiment = Experiment(arrivals, server, limits, keys=lots, warmup=9.0, seed=1)
    of_keys = experiment.run("cork", 1).keys or {}
    assert of_keys["0"].goodput >= 0.8 * of_keys["1"].goodput > 0.0


def test_a_fast_key_in_a_hurry_is_tried_beside_slow_ones_that_never_pause() -> None:
    """A batch of most keys would be too late for it, which says nothing of its own."""
    seconds = 10.0
    server = Server(5e-3, 0.05e-3, conditions=(KeyCosts(dict.fromkeys(range(3), 8.0)),))
    heavy = poisson(450.0, seconds, seed=1)
    jobs = [(at, key, 1.0) for at, key in zip(heavy, Lots(3, 0.0, seed=1), strict=False)]
    jobs = sorted([*jobs, *((at, 3, 25e-3) for at in poisson(50.0, seconds, seed=11))])
    arrivals, keys, within = zip(*jobs, strict=True)
    limits, warmup = Limits(32, 1.0), seconds / 2
    experiment = Experiment(
        arrivals, server, limits, keys=keys, max_latencies=within, warmup=warmup, seed=1
    )
    of_keys = experiment.run("cork", 4).keys or {}
    assert of_keys["3"].goodput >= 0.8


def test_probes_of_all_slow_keys_take_a_fiftieth_of_an_overload() -> None:
    """If each was tried as if it were the only one, they would take a quarter of it."""
    server = Server(20e-3, 0.2e-3, conditions=(KeyCosts(dict.fromkeys(range(5), 5.0)),))
    workers, seconds, history = 3, 15.0, History()
    arrivals, keys = poisson(1_800.0, seconds, seed=1), Lots(20, 0.0, seed=1)
    experiment = Experiment(arrivals, server, Limits(8, 60e-3), keys=keys, seed=1)
    experiment.play("cork", workers, history)
    probes = [
        batch.finished - batch.released for batch in history.batches if batch.reason is Reason.PROBE
    ]
    assert len(probes) > 10
    first = 5 * max(probes)  # those of new keys need not wait for the others
    assert sum(probes) <= first + workers * (seconds / 50 + max(probes))


def test_probes_beside_which_nothing_waits_cost_no_budget() -> None:
    """A driver asks some microseconds after such a job came, which is no wait for a worker."""
    scheduler, probes = some_dear(), 0
    for now in (1e3 + 5.0 * step for step in range(20)):
        offer(scheduler, "dear", now)
        if (batch := left(scheduler, now + 50e-6)) is not None:
            probes += batch.reason is Reason.PROBE
            scheduler.finish(batch, Outcome.DONE, now + 0.3)
    assert probes > 1
    assert scheduler.permits.next_probe == -inf


def test_the_first_job_of_a_key_may_wait_though_the_budget_is_used_up() -> None:
    """Most keys are too slow by what is known, so that nothing else would tell that it is not."""
    scheduler, now = some_dear(), 1e3
    offer(scheduler, "cheap", now)
    scheduler.finish(released(scheduler.next(now)), Outcome.DONE, now + 5e-3)
    scheduler.permits.spend_on_probe(now, 1.0)
    offer(scheduler, "cheap", now + 5e-3)
    released(scheduler.next(now + 5e-3))
    with pytest.raises(Overloaded):
        scheduler.submit(Job(now + 6e-3, deadline=now + 6e-3 + PROMISE, key="dear"))
    scheduler.submit(Job(now + 6e-3, deadline=now + 6e-3 + PROMISE, key="new"))


def test_a_lone_slow_key_that_became_fast_is_noticed_after_fifty_of_its_batches() -> None:
    """None of its jobs is answered meanwhile, though nothing else comes."""
    scheduler = having_run({"a": 1.0, "b": 1.0, "dear": 60.0}, 300)
    scheduler.retune(Cork(), Limits(64, PROMISE))
    slow, first = scheduler.line("dear").predict(1), inf
    for now in (1e3 + 0.05 * step for step in range(2_000)):
        offer(scheduler, "dear", now)
        if (batch := left(scheduler, now)) is not None:
            first = min(first, now)
            scheduler.finish(batch, Outcome.DONE, now + 5.05e-3)
    assert first - 1e3 <= 50.0 * slow
    assert scheduler.line("dear").predict(1) < PROMISE


def test_of_a_key_of_which_nothing_ran_nothing_is_known() -> None:
    """One batch is tried, and soon all are answered."""
    scheduler, answered = some_dear(), 0
    for now in (1e3 + 10e-3 * step for step in range(200)):
        key = ("cheap", "new")[round(now * 100) % 2]
        offer(scheduler, key, now)
        batch = released(scheduler.next(now))
        answered += batch.key == "new"
        scheduler.finish(batch, Outcome.DONE, now + 5.05e-3)
    assert answered > 95


def test_the_first_of_all_keys_is_tried_as_any_other() -> None:
    """Its first job was withdrawn before a batch left; then others have shown how slow they are."""
    scheduler = Scheduler(Cork(), Limits(64, PROMISE))
    first = Job(0.0, key="first")
    scheduler.submit(first)
    assert scheduler.cancel(first)
    for now in range(1, 21):
        scheduler.submit(Job(now, key="dear"))
        scheduler.finish(released(scheduler.next(now)), Outcome.DONE, now + 150e-3)
    scheduler.submit(Job(30.0, key="dear"))
    scheduler.finish(released(scheduler.next(30.0)), Outcome.DONE, 30.0 + 1e-3)
    scheduler.submit(Job(30.002, deadline=30.002 + PROMISE, key="first"))
    assert released(scheduler.next(30.002)).reason is Reason.PROBE


def test_a_probe_waits_for_a_busy_worker() -> None:
    """Under load none is idle whenever a job of a new key comes: one waits for it, and no more."""
    scheduler, now = some_dear(), 1e3
    offer(scheduler, "cheap", now)
    running = released(scheduler.next(now))
    with pytest.raises(Overloaded):
        scheduler.submit(Job(now, deadline=now + 4e-3, key="new"))  # no worker until then
    scheduler.submit(Job(now, deadline=now + PROMISE, key="new"))
    with pytest.raises(Overloaded):
        scheduler.submit(Job(now, deadline=now + PROMISE, key="new"))
    scheduler.finish(running, Outcome.DONE, now + 5e-3)
    assert released(scheduler.next(now + 5e-3)).reason is Reason.PROBE


def test_no_probe_waits_for_a_worker_that_hangs() -> None:
    """It has been overdue for longer than the job has time."""
    scheduler, now = some_dear(), 1e3
    offer(scheduler, "cheap", now)
    released(scheduler.next(now))
    with pytest.raises(Overloaded):
        scheduler.submit(Job(now + 1.0, deadline=now + 1.0 + PROMISE, key="new"))


def test_one_probe_of_a_key_runs_at_a_time() -> None:
    """It takes far longer than was expected: no other worker is given as long a batch."""
    scheduler, now = some_dear(workers=3), 1e3
    offer(scheduler, "new", now)
    probe = released(scheduler.next(now))
    assert probe.reason is Reason.PROBE
    now = scheduler.queues["new"].forgotten
    assert now > probe.predicted_finish
    offer(scheduler, "cheap", now)
    assert released(scheduler.next(now)).key == "cheap"
    offer(scheduler, "new", now)
    assert scheduler.permits.idle
    assert left(scheduler, now) is None


def test_a_job_in_a_hurry_makes_no_key_doubtful() -> None:
    """A client that makes up keys, and asks for what no batch can do, gets none."""
    scheduler, now = having_run({"a": 1.0, "b": 1.0}, 100), 1e3
    scheduler.retune(Cork(), Limits(64, PROMISE))
    offer(scheduler, "a", now)
    scheduler.finish(released(scheduler.next(now)), Outcome.DONE, now + 1e-3)
    offer(scheduler, "made up", now + 1e-3, 4e-3)
    assert left(scheduler, now + 1e-3) is None


def test_while_the_loop_is_late_the_newest_jobs_wait_too() -> None:
    """A thousand calls in one turn of the loop, 45 ms long: the oldest expire before it ends.

    The worker idles meanwhile, and was asked for nothing. If the door went by the jobs that wait,
    it would refuse those that can still be answered.
    """
    scheduler = having_run({None: 1.0}, 100)
    scheduler.retune(Cork(), Limits(64, PROMISE))
    now = 1e3
    for call in range(1_000):
        with suppress(Overloaded):
            submit(scheduler, 1, now + call * 45e-6, PROMISE)
    now, answered = now + 45e-3, 0
    while (batch := left(scheduler, now)) is not None:
        answered += batch.size
        now += 5e-3 + 0.05e-3 * batch.size
        scheduler.finish(batch, Outcome.DONE, now)
        assert all(now <= job.deadline for job in batch.jobs)
    assert answered >= 100


def test_a_model_that_compiles_for_two_sizes_serves_as_soon_as_it_has() -> None:
    """Its first two batches are no line by which all large ones take seconds."""
    server = Server(5e-3, 0.3e-3, conditions=(ColdStart(2, 20.0),))
    arrivals = poisson(300.0, 60.0, seed=1)
    row = Experiment(arrivals, server, Limits(32, 0.1), warmup=41.0, seed=1).run("cork", 1)
    assert (row.goodput or 0.0) >= 0.98
