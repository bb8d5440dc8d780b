"""Which jobs are let in where they don't cost the same."""

from contextlib import suppress
from random import Random

import pytest

from adaptive_batching.core import (
    Batch,
    Costs,
    Fairness,
    Hold,
    Job,
    Limits,
    Outcome,
    Scheduler,
    make_policy,
)
from adaptive_batching.core.load import Load
from adaptive_batching.errors import Overloaded, QueueFull
from adaptive_batching.simulation import (
    Bimodal,
    CostSeconds,
    DrawnCosts,
    Experiment,
    Server,
    poisson,
)
from tests.core.steps import released

FIXED, PER_COST = 4e-3, 1.2e-6  # seconds
CHEAP, COSTLY = 16.0, 320.0


def before_one_worker() -> Scheduler:
    """Full batches of 64, 100 ms; it knows how long they take."""
    limits = Limits(64, 0.1, costs=Costs(padded=True))
    scheduler = Scheduler(make_policy("cork"), limits)
    for size in (8, 32, 64) * 10:
        for each in (CHEAP, COSTLY):
            cost = size * each
            scheduler.latency.observe(size, FIXED + PER_COST * cost, cost)
    return scheduler


@pytest.mark.parametrize("cost", [CHEAP, COSTLY])
def test_the_work_that_waits_is_what_it_costs(cost: float) -> None:
    """A hundred long texts are more seconds of work than a hundred short ones."""
    scheduler = before_one_worker()
    scheduler.submit(Job(0.0, cost=cost))
    released(scheduler.next(0.0))
    for _ in range(64):
        scheduler.submit(Job(0.0, cost=cost))
    work = Load.of(scheduler, 0.0).work
    assert work == pytest.approx(FIXED + PER_COST * 64 * cost, rel=0.05)


@pytest.mark.parametrize("padded", [True, False])
def test_a_text_far_longer_than_all_before_it_is_tried(*, padded: bool) -> None:
    """Pings that all cost the same say nothing of what cost takes, and were taken to say that it
    takes all of their time. One text in a hundred is 375 times as long, and takes 33 ms.
    """
    arrivals, costs = poisson(20.0, 60.0, seed=0), DrawnCosts(Bimodal(4.0, 1500.0, 0.01), seed=0)
    server = Server(3e-3, 0.0, costs=CostSeconds(20e-6, padded=padded))
    limits = Limits(64, 0.3, costs=Costs(padded=padded))
    row = Experiment(arrivals, server, limits, costs=costs).run("cork")
    assert row.goodput is not None
    assert row.goodput > 0.998


def test_in_overload_costly_jobs_make_room_for_cheap_ones() -> None:
    """At 1.5 times what a worker can do nearly all short texts are answered, and some long ones.

    The batch of a long one takes five times as long, so that it has to begin that much sooner.
    """
    scheduler = before_one_worker()
    sent, answered = {CHEAP: 0, COSTLY: 0}, {CHEAP: 0, COSTLY: 0}
    running: Batch | None = None
    free = 0.0

    def run(now: float) -> None:
        nonlocal running, free
        step = scheduler.next(now)
        while not isinstance(step, Batch | Hold):
            step = scheduler.next(now)
        if isinstance(step, Batch):
            running, free = step, now + FIXED + PER_COST * step.cost

    for number in range(20_000):
        now, cost = number * 1e-4, CHEAP if number % 5 else COSTLY
        while running is not None and free <= now:
            scheduler.finish(running, Outcome.DONE, free)
            for job in running.jobs:
                answered[job.cost] += free <= job.deadline
            running = None
            run(free)
        sent[cost] += 1
        try:
            scheduler.submit(Job(now, 1, now + 0.1, cost=cost))
        except Overloaded as refused:
            assert refused.retry_after > 0  # noqa: PT017  it is refused here, or let in
        if running is None:
            run(now)
    assert answered[CHEAP] > 0.9 * sent[CHEAP]
    assert answered[COSTLY] > 0.25 * sent[COSTLY]


@pytest.mark.parametrize("policy", ["window:10s", "triton:8,16/10s", "deferred"])
@pytest.mark.parametrize(
    "costs", [Costs(max_batch_cost=100.0), Costs(padded=True, max_batch_cost=100.0)]
)
def test_a_batch_that_is_full_by_cost_waits_for_no_other_job(policy: str, costs: Costs) -> None:
    """Three of 40 don't fit into 100, so the batch of two would wait for nothing."""
    limits = Limits(16, 20.0, costs=costs)
    scheduler = Scheduler(make_policy(policy), limits)
    scheduler.latency.observe(2, 5e-3, 80.0)
    scheduler.submit(Job(0.0, 1, 20.0, cost=40.0))
    assert isinstance(scheduler.next(0.0), Hold)
    scheduler.submit(Job(0.0, 1, 20.0, cost=40.0))
    assert len(released(scheduler.next(0.0)).jobs) == 2


@pytest.mark.parametrize("seed", [9, 19, 37, 49])
def test_jobs_that_cost_nothing_have_their_turn_among_several_keys(seed: int) -> None:
    """A model takes as long as its batches cost, and more comes than it could answer in time."""
    random = Random(seed)
    limits = Limits(16, 0.2, max_queue=10_000, costs=Costs())
    scheduler, now, freely = Scheduler(make_policy("cork"), limits), 0.0, 0
    for _ in range(60):
        for _ in range(random.randint(5, 60)):
            size, key = random.randint(1, 3), random.choice("ab")
            with suppress(Overloaded):
                cost = random.choice((0.0, 0.0, 30.0, 60.0))
                scheduler.submit(Job(now, size, now + 0.2, key, cost))
        while not isinstance(step := scheduler.next(now), Hold):
            if isinstance(step, Batch):
                now += 2e-4 * step.cost * random.uniform(0.95, 1.05)
                scheduler.finish(step, Outcome.DONE, now)
                freely += sum(not job.cost for job in step.jobs)
        now += 10e-3
    assert freely > 100


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("load", [0.9, 1.3])
@pytest.mark.parametrize(
    "policy", ["greedy", "window:2ms", "aimd", "triton:8,16", "nexus", "deferred", "cork"]
)
def test_costs_that_are_all_the_same_change_no_batches(
    policy: str, load: float, *, padded: bool
) -> None:
    """Costs say which jobs leave, and the policy says how many: also if they will all be late."""
    times = poisson(load * 16 / (FIXED + 16 * 50e-6), 1.0, seed=1)
    server = Server(FIXED, 50e-6, jitter=0.02)
    without, equal = (
        Experiment(
            times, server, Limits(16, 0.1, costs=costs), costs=[7.0] * len(times), seed=1
        ).run(policy, 1)
        for costs in (None, Costs(padded))
    )
    assert equal.goodput == pytest.approx(without.goodput, abs=0.01)
    assert equal.mean_batch_size == pytest.approx(without.mean_batch_size, rel=0.01)


def before_memory_for_sixteen() -> Scheduler:
    """A short text runs, 130 long ones wait, and sixteen of them fill a batch."""
    limits = Limits(64, max_queue=130, costs=Costs(padded=True, max_batch_cost=16 * COSTLY))
    scheduler = Scheduler(make_policy("cork"), limits)
    for size, cost in ((1, COSTLY), (8, CHEAP), (16, COSTLY), (64, CHEAP)) * 10:
        scheduler.latency.observe(size, FIXED + PER_COST * size * cost, size * cost)
    scheduler.submit(Job(0.0, cost=CHEAP))
    released(scheduler.next(0.0))
    for _ in range(130):
        scheduler.submit(Job(0.0, cost=COSTLY))
    return scheduler


@pytest.mark.parametrize("fairness", [None, Fairness()])
def test_a_full_batch_is_said_by_number_or_by_cost(fairness: Fairness | None) -> None:
    """Five long texts, or what five cost: as much is ahead of a job in full batches, and jobs are
    put off for as long.
    """
    told = []
    for limits in (
        Limits(5, 0.1, costs=Costs(padded=True)),
        Limits(64, 0.1, costs=Costs(padded=True, max_batch_cost=5 * COSTLY)),
    ):
        scheduler = Scheduler(make_policy("cork"), limits, fairness=fairness)
        for size in (1, 2, 3, 4, 5) * 30:
            scheduler.latency.observe(size, FIXED + 1e-5 * size * COSTLY, size * COSTLY)
        for _ in range(50):
            scheduler.submit(Job(0.0, cost=COSTLY))
        released(scheduler.next(0.0))
        view = scheduler.queues[None]
        at = view.situation(0.0)
        ahead = view.queue.ahead_of(Job(0.0, cost=COSTLY)) / at.full
        told.append((at.full, ahead, scheduler._queues.deferral()))
    assert told[0][:2] == (5, pytest.approx(9, rel=0.02))
    assert told[1] == pytest.approx(told[0], rel=0.02)


def test_room_comes_with_batches_that_are_full_by_cost() -> None:
    """For 64 short texts four batches of long ones have to leave, not one of 64."""
    scheduler = before_memory_for_sixteen()
    with pytest.raises(QueueFull) as refused:
        scheduler.submit(Job(0.0, 64, cost=CHEAP))
    wait = FIXED + PER_COST * CHEAP + 3 * (FIXED + PER_COST * 16 * COSTLY)
    assert refused.value.retry_after == pytest.approx(1.05 * wait, rel=0.05)


def test_work_is_reckoned_in_batches_that_are_full_by_cost() -> None:
    """130 long texts take nine batches, whose fixed parts count: not three."""
    work = Load.of(before_memory_for_sixteen(), 0.0).work
    assert work == pytest.approx(9 * FIXED + 130 * PER_COST * COSTLY, rel=0.05)


def test_a_hasty_job_is_refused_behind_costlier_ones_than_usual() -> None:
    """After many short texts 320 long ones wait: there would be time for as many short ones."""
    scheduler = before_one_worker()
    for size in (8, 32, 64) * 60:
        scheduler.latency.observe(size, FIXED + PER_COST * size * CHEAP, size * CHEAP)
    scheduler.submit(Job(0.0, cost=COSTLY))
    now = released(scheduler.next(0.0)).predicted_finish
    for _ in range(320):
        scheduler.submit(Job(0.0, deadline=10.0, cost=COSTLY))
    (running,) = scheduler.permits.running
    scheduler.finish(running, Outcome.DONE, now)
    released(scheduler.next(now))
    late = 5 * (FIXED + PER_COST * 64 * COSTLY)
    with pytest.raises(Overloaded):
        scheduler.submit(Job(now, 64, now + 0.6 * late, cost=CHEAP))
