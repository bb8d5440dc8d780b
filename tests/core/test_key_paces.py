"""What is learned of each batch key: how long its batches take beside those of most."""

from collections.abc import Hashable, Mapping
from math import inf
from random import Random

import pytest

from adaptive_batching.core import Job, Limits, Outcome, Scheduler
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.core.policies.greedy import Greedy
from adaptive_batching.errors import Overloaded
from tests.core.steps import released


def having_run(
    costs: Mapping[Hashable, float], batches: int, workers: int = 1, jitter: float = 0.05
) -> Scheduler:
    """One that has run batches of 5 ms + 0.05 ms an item, times the cost of their key."""
    random, now = Random(1), 0.0
    scheduler = Scheduler(Greedy(), Limits(64), workers)
    for _ in range(batches):
        key = random.choice([*costs])
        size = random.randrange(1, 65)
        for _ in range(size):
            scheduler.submit(Job(now, key=key))
        batch = released(scheduler.next(now))
        now += (5e-3 + 0.05e-3 * size) * costs[key] * random.lognormvariate(0.0, jitter)
        scheduler.finish(batch, Outcome.DONE, now)
    return scheduler


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
