"""What is learned of each batch key: how long its batches take beside those of most."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from math import inf
from random import Random
from statistics import fmean

import pytest

from adaptive_batching.core import Job, Limits, Outcome
from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.estimators.pace import KeyPace, KeySpread
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.errors import Overloaded
from adaptive_batching.simulation import Experiment, KeyCosts, Server, poisson
from adaptive_batching.simulation.servers.runs import Change, Run
from tests.core.steps import having_run, released


@pytest.mark.parametrize("workers", [1, 3])
def test_each_key_has_its_own_duration(workers: int) -> None:
    """However much they differ, what is predicted of each is about right."""
    costs: dict[Hashable, float] = {"small": 1.0, "medium": 3.0, "large": 8.0}
    scheduler = having_run(costs, 300, workers)
    for key, cost in costs.items():
        for size in (1, 64):
            expected = (5e-3 + 0.05e-3 * size) * cost
            assert scheduler.line(key).predict(size) == pytest.approx(expected, rel=0.15)
    assert not scheduler.permits.uneven


def test_requests_that_are_refused_make_no_key_forgotten() -> None:
    """A client that makes up keys for jobs that are not let in takes nothing from others."""
    scheduler = having_run({"in use": 8.0, "in use too": 1.0}, 100)
    scheduler.retune(Cork(), Limits(64, 25e-3))
    scheduler.submit(Job(1e3, key="in use"))
    released(scheduler.next(1e3))  # the only worker is busy for 40 ms
    slow = scheduler.line("in use").predict(1)
    for number in range(3_000):
        with pytest.raises(Overloaded):
            scheduler.submit(Job(1e3, deadline=1e3 + 1e-3, key=number))
    assert scheduler.line("in use").predict(1) == slow


def test_keys_that_are_alike_share_one_line() -> None:
    """Noise makes no difference between them, so that each learns from the batches of all."""
    scheduler = having_run({"a": 1.0, "b": 1.0, "c": 1.0}, 300)
    assert all(scheduler.line(key) is scheduler.latency for key in "abc")


def test_a_key_that_has_become_faster_is_believed() -> None:
    """After a few batches, not after as many as were seen before."""
    costs: dict[Hashable, float] = {"same": 1.0, "other": 8.0}
    scheduler = having_run(costs, 200)
    now = 1e3
    for _ in range(10):
        for key in costs:
            scheduler.submit(Job(now, key=key))
            batch = released(scheduler.next(now))
            now += 5.05e-3
            scheduler.finish(batch, Outcome.DONE, now)
    assert scheduler.line("other").predict(1) == pytest.approx(5.05e-3, rel=0.15)


def test_what_is_learned_of_keys_in_use_outlasts_any_number_of_others() -> None:
    """Clients make up keys: of 1,024 those are remembered that were used last."""
    scheduler = having_run({"in use": 8.0, "in use too": 1.0}, 100)
    now, slow = 1e3, scheduler.line("in use").predict(1)
    for number in range(3_000):
        scheduler.submit(Job(now, deadline=inf, key=number))
        scheduler.finish(released(scheduler.next(now)), Outcome.DONE, now + 5.05e-3)
        now += 1.0
        if number % 500 == 0:
            scheduler.submit(Job(now, key="in use"))
            scheduler.finish(released(scheduler.next(now)), Outcome.DONE, now + slow)
    assert len(scheduler.queues) == 1024
    assert scheduler.line("in use").predict(1) > 4 * scheduler.line(2_999).predict(1)


def learned(batches: Iterable[tuple[Hashable, float]]) -> dict[Hashable, KeyPace]:
    """What is known of keys after batches that took so many times as long as usual."""
    pool, spread, paces = LinearLatency(), KeySpread(), dict[Hashable, KeyPace]()
    for size in (1, 8, 64) * 5:
        pool.observe(size, 5e-3 + 0.05e-3 * size)
    for number, (key, ratio) in enumerate(batches):
        size = (1, 8, 64)[number % 3]
        pace = paces.setdefault(key, KeyPace(pool, spread))
        duration = ratio * (5e-3 + 0.05e-3 * size)
        pace.learn(size, duration)
        pool.observe(size, duration / pace.factor)
    return paces


def test_where_keys_differ_by_far_the_first_batch_of_another_is_believed() -> None:
    """Two keys have shown that one may take eight times as long as another."""
    known = [("cheap", 1.0), ("dear", 8.0)] * 10
    factor = {key: pace.factor for key, pace in learned([*known, ("new", 8.0)]).items()}
    assert factor["dear"] / factor["cheap"] == pytest.approx(8.0, rel=0.1)
    assert factor["new"] == pytest.approx(factor["dear"], rel=0.3)


def test_a_first_batch_that_loads_and_compiles_is_forgotten_with_the_next() -> None:
    """No batch is as fast as the second by accident, so the first was slow by one."""
    known = [("cheap", 1.0), ("dear", 8.0)] * 10
    paces = learned([*known, ("new", 20.0), ("new", 1.0)])
    assert paces["new"].factor == pytest.approx(paces["cheap"].factor, rel=0.3)


@dataclass(frozen=True)
class ColdKeys:
    """The first batch of each key takes longer, in seconds: its adapter is loaded."""

    extra: float

    def begin(self, seed: int) -> Change:
        """All of them are still to come."""
        seen = set[Hashable]()

        def slower(run: Run) -> Run:
            if run.key in seen:
                return run
            seen.add(run.key)
            return run._replace(seconds=run.seconds + self.extra)

        return slower


@pytest.mark.parametrize("dear", [1.0, 8.0])
@pytest.mark.parametrize("extra", [0.2, 0.5, 1.0])
def test_keys_whose_first_batch_is_late_are_served_with_the_second(
    extra: float, dear: float
) -> None:
    """A line of cold batches is slow for all keys: the first that is warm is no exception."""
    conditions = (KeyCosts({3: dear}), ColdKeys(extra))
    arrivals = poisson(400.0, 20.0, seed=1)
    keys = Random(1).choices(range(4), k=len(arrivals))
    server = Server(2e-3, 0.2e-3, conditions=conditions)
    row = Experiment(arrivals, server, Limits(32, 0.1), keys=keys, warmup=10.0).run("cork")
    assert min(each.goodput for each in (row.keys or {}).values()) > 0.99


def test_the_most_frequent_of_many_keys_is_served() -> None:
    """One key in four costs eight times as much: an overload takes from those, by and large.

    Full batches leave jobs out that might be late; if another key's batch left instead, the most
    frequent would do so again and again, and have a tenth of its jobs in time in some traffic.
    """
    costs = {key: 8.0 if key % 4 == 3 else 1.0 for key in range(32)}
    server = Server(4e-3, 1.6e-3, conditions=(KeyCosts(costs),))
    rows = []
    for seed in range(1, 13):
        arrivals = poisson(2_000.0, 4.0, seed=seed)
        shares = [1.0 / (key + 1) for key in costs]
        keys = Random(seed).choices(list(costs), shares, k=len(arrivals))
        experiment = Experiment(arrivals, server, Limits(64, 0.5), keys=keys, warmup=2.0)
        rows.append(experiment.run("cork", 4))
    frequent = [(row.keys or {})["0"].goodput for row in rows]
    assert fmean(frequent) > 0.85
    assert min(frequent) > 0.6
    assert fmean(row.goodput for row in rows) > 0.8
