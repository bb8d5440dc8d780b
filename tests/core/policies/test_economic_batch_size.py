"""What waits is served in parts where the first of a batch would wait long for its last."""

from math import inf, sqrt

import pytest

from adaptive_batching.core import Job, Limits, Scheduler
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.simulation import (
    ClosedLoop,
    Experiment,
    Server,
    Span,
    UnevenServers,
    limit_of,
    poisson,
)
from tests.core.steps import released, submit


def scheduler(fixed: float, per_item: float, max_latency: float = inf) -> Scheduler:
    """One worker that has shown what batches of many sizes take."""
    scheduler = Scheduler(Cork(), Limits(64, max_latency), 1)
    for size in [1, 2, 4, 8, 64] * 20:
        scheduler.latency.observe(size, fixed + per_item * size)
    return scheduler


def first_of_sixteen(scheduler: Scheduler) -> int:
    """Sixteen come at once: the size of the batch that leaves."""
    submit(scheduler, 16, now=0.0, patience=scheduler.limits.max_latency)
    return released(scheduler.next(0.0)).size


def test_items_that_gain_nothing_together_go_one_by_one() -> None:
    """A batch of sixteen would make fifteen wait for nothing."""
    assert first_of_sixteen(scheduler(fixed=1e-6, per_item=5e-3)) == 1


def test_items_that_share_most_of_their_time_go_together() -> None:
    """As with most models."""
    assert first_of_sixteen(scheduler(fixed=5e-3, per_item=0.05e-3)) == 16


def test_a_promise_that_needs_the_capacity_keeps_batches_whole() -> None:
    """Sixteen times 5 ms within 83 ms leave no time for more fixed parts, within 90 ms they do."""
    assert first_of_sixteen(scheduler(1e-3, 5e-3, max_latency=83e-3)) == 16
    assert first_of_sixteen(scheduler(1e-3, 5e-3, max_latency=90e-3)) == 4


def test_one_size_teaches_nothing_about_parts() -> None:
    """Before the fit is trusted, what waits leaves together."""
    untaught = Scheduler(Cork(), Limits(64), 1)
    assert first_of_sixteen(untaught) == 16


def submit_keys(scheduler: Scheduler, each: int, keys: str) -> None:
    """So many jobs of each key at one instant."""
    for key in keys:
        for _ in range(each):
            scheduler.submit(Job(0.0, key=key))


def test_what_waits_in_all_queues_waits_for_the_fixed_parts_of_each() -> None:
    """Beside seven other keys, batches of one are as large as if all had its key."""
    alone, beside = (scheduler(fixed=1e-3, per_item=5e-3) for _ in range(2))
    submit_keys(alone, 16, "a")
    submit_keys(beside, 16, "abcdefgh")
    assert released(alone.next(0.0)).size == round(2 * sqrt(16 / 5))
    assert released(beside.next(0.0)).size == round(2 * sqrt(8 * 16 / 5))


@pytest.mark.parametrize("users", [4, 6, 8])
def test_a_slow_worker_takes_its_part_of_callers_who_come_together(users: int) -> None:
    """All of them take longer on the fast one than a few do on the slow one."""
    loop = ClosedLoop(users, 8.0, Span(0.0, 0.0), Span(0.05e-3, 0.15e-3), seed=1)
    servers = UnevenServers((Server(2e-3, 3e-3), Server(4e-3, 6e-3)))
    experiment = Experiment(loop, servers, Limits(64), warmup=2.0)
    cork, greedy = (experiment.run(policy, 2).on_time for policy in ("cork", "greedy"))
    assert cork > 0.97 * greedy


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_the_mean_is_near_the_least_that_any_policy_reaches(load: float) -> None:
    """Within 4 % of the optimum of the decision process, where greedy is up to 20 % above it."""
    rate = load * 64 / (0.1e-3 + 64 * 5e-3)
    arrivals = poisson(rate, 10_000 / rate, seed=2)
    traffic = Experiment(arrivals, Server(0.1e-3, 5e-3), Limits(64))
    least = limit_of(traffic, 1, rate).mean_latency
    mean = traffic.run("cork").mean_latency
    assert mean is not None
    assert least is not None
    assert mean < least * 1.04
