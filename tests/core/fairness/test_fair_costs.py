"""Tenants share the workers' seconds where items don't cost the same."""

from collections import Counter
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptive_batching.core import (
    Batch,
    Costs,
    Fairness,
    Hold,
    Limits,
    Outcome,
    Priority,
    Scheduler,
    Shed,
    TenantJob,
    make_policy,
)
from adaptive_batching.errors import BatchingError
from tests.core.steps import released

FIXED, PER_COST = 4e-3, 2e-6  # seconds


def shared(
    costs: Costs,
    *,
    policy: str = "greedy",
    size: int = 16,
    max_latency: float = inf,
    weights: dict[str, float] | None = None,
    scale: float = 1.0,
) -> Scheduler:
    """A scheduler that knows batches to take 4 ms + 2 us for each unit of cost."""
    limits = Limits(size, max_latency, 10**6, costs=costs)
    scheduler = Scheduler(make_policy(policy), limits, fairness=Fairness(weights or {}))
    for items in (1, 4, 8, 16) * 10:
        for each in (30.0, 100.0, 300.0):
            cost = items * each
            scheduler.latency.observe(items, FIXED + PER_COST * cost, cost * scale)
    return scheduler


def come(
    scheduler: Scheduler,
    count: int,
    tenant: str,
    cost: float,
    now: float = 0.0,
    *,
    priority: Priority = Priority.NORMAL,
) -> list[TenantJob]:
    jobs = [TenantJob(now, cost=cost, tenant=tenant, priority=priority) for _ in range(count)]
    for job in jobs:
        scheduler.submit(job)
    return jobs


def seconds_of_each(batch: Batch, costs: Costs, took: float) -> Counter[str]:
    """The seconds of a batch, shared out by what each member would have taken."""
    works = [FIXED / 16 + PER_COST * costs.of_job(job) for job in batch.jobs]
    seconds: Counter[str] = Counter()
    for job, work in zip(batch.jobs, works, strict=True):
        seconds[str(job.tenant)] += took * work / sum(works)  # type: ignore[assignment]
    return seconds


@settings(max_examples=10, deadline=None)
@given(
    padded=st.booleans(),
    scale=st.sampled_from([1e-6, 1.0, 1e5]),
    costs=st.tuples(st.floats(20, 60), st.floats(8, 12)),
    weight=st.sampled_from([1.0, 1.0, 3.0]),
)
def test_tenants_have_equal_seconds_however_costly_their_items_are(
    *, padded: bool, scale: float, costs: tuple[float, float], weight: float
) -> None:
    """One tenant sends long texts, ten times as costly; each has half of the worker's time."""
    cheap, times = costs
    adds = Costs(padded=padded)
    scheduler = shared(adds, weights={"long": weight}, scale=scale)
    come(scheduler, 4000, "short", cheap * scale)
    come(scheduler, 2000, "long", cheap * times * scale)
    now, seconds = 0.0, Counter[str]()
    for _ in range(150):
        batch = released(scheduler.next(now))
        took = FIXED + PER_COST * adds.of_jobs(batch.jobs) / scale
        for job in batch.jobs:
            job.cost /= scale
        seconds += seconds_of_each(batch, adds, took)
        for job in batch.jobs:
            job.cost *= scale
        now += took
        scheduler.finish(batch, Outcome.DONE, now)
    assert scheduler.queued(None) > 0
    assert seconds["long"] / seconds["short"] == pytest.approx(weight, rel=0.15)


def test_a_batch_has_items_of_about_the_same_cost_of_both_tenants() -> None:
    """Short and long texts of two tenants: short ones share batches, and so do long ones."""
    scheduler = shared(Costs(padded=True))
    for tenant in ("a", "b"):
        come(scheduler, 100, tenant, 10.0)
        come(scheduler, 100, tenant, 500.0)
    for _ in range(8):
        batch = released(scheduler.next(0.0))
        scheduler.finish(batch, Outcome.FAILED, 0.0)
        assert len({job.cost for job in batch.jobs}) == 1
        assert Counter(job.tenant for job in batch.jobs) == {"a": 8, "b": 8}


def test_a_costly_job_behind_a_flood_leaves_with_the_batch_after_next() -> None:
    """A flood of short texts of another tenant waits, and goes first while both are even."""
    scheduler = shared(Costs(padded=True))
    come(scheduler, 1000, "flood", 10.0)
    scheduler.finish(released(scheduler.next(0.0)), Outcome.DONE, 0.1)
    (job,) = come(scheduler, 1, "other", 3000.0, 0.1)
    scheduler.finish(released(scheduler.next(0.1)), Outcome.DONE, 0.2)
    assert job in released(scheduler.next(0.2)).jobs


def test_high_priority_goes_first_and_leaves_normal_ones_a_tenth_of_the_seconds() -> None:
    """Nine times the cost of a normal job overtakes it, not nine times its items."""
    scheduler = shared(Costs(), size=1)
    (normal,) = come(scheduler, 1, "a", 1000.0)
    come(scheduler, 1000, "a", 10.0, priority=Priority.HIGH)
    before = 0
    while normal.waiting:
        scheduler.finish(released(scheduler.next(0.0)), Outcome.FAILED, 0.0)
        before += 1
    part = FIXED + PER_COST * 1000.0, FIXED + PER_COST * 10.0
    assert before - 1 == pytest.approx(9 * part[0] / part[1], abs=1)


def test_no_batch_of_several_tenants_costs_more_than_its_limit() -> None:
    """For a memory of 1,000 tokens: ten texts of a hundred, five of each tenant."""
    scheduler = shared(Costs(padded=True, max_batch_cost=1000.0))
    for tenant in ("a", "b"):
        come(scheduler, 20, tenant, 100.0)
    while scheduler.items:
        batch = released(scheduler.next(0.0))
        scheduler.finish(batch, Outcome.FAILED, 0.0)
        assert batch.cost == 1000.0
        assert Counter(job.tenant for job in batch.jobs) == {"a": 5, "b": 5}


def test_a_large_batch_leaves_whose_deadlines_come_in_another_order() -> None:
    """A hundred jobs of two tenants, the newest of each with the earliest deadline."""
    scheduler = shared(Costs(), size=100)
    jobs = [
        TenantJob(0.0, cost=10.0, tenant="ab"[number % 2], deadline=500.0 - number)
        for number in range(200)
    ]
    for job in jobs:
        scheduler.submit(job)
    left = []
    for _ in range(2):
        batch = released(scheduler.next(0.0))
        scheduler.finish(batch, Outcome.DONE, 0.3)
        left += batch.jobs
    assert set(left) == set(jobs)
    assert scheduler.items == 0


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "submit", "cancel", "next", "finish", "wait"]),
        st.sampled_from(["a", "b", "c"]),
        st.one_of(st.just(0.0), st.floats(0.01, 1e4)),
        st.integers(1, 4),
        st.sampled_from(list(Priority)),
        st.sampled_from([inf, 0.03, 0.2]),
    ),
    max_size=120,
)


@settings(max_examples=150, deadline=None)
@given(EVENTS, st.booleans(), st.sampled_from(["greedy", "cork"]), st.sampled_from([inf, 2e4]))
def test_every_job_has_one_end_and_none_is_starved(
    events: list[tuple[str, str, float, int, Priority, float]],
    padded: bool,  # noqa: FBT001
    policy: str,
    most: float,
) -> None:
    """Whatever comes and goes, each job leaves once; and none is late in a batch that would have
    been in time with sixteen items of its like, or of the usual cost.
    """
    costs = Costs(padded=padded, max_batch_cost=most)
    scheduler = shared(costs, policy=policy, max_latency=0.2)
    now, running = 0.0, list[Batch]()
    jobs, ended = list[TenantJob](), list[object]()

    def step() -> bool:
        nonlocal now
        usual = scheduler.queues[None].mean_cost if scheduler.items else 0.0
        done = scheduler.next(now)
        if isinstance(done, Hold):
            return False
        ended.extend(done.jobs)
        if isinstance(done, Shed):
            return True
        running.append(done)
        assert done.cost == pytest.approx(costs.of_jobs(done.jobs))
        if len(done.jobs) > 1:
            assert done.size <= 16
            assert done.cost <= most
            finish = now + done.predicted
            for job in done.jobs:
                alike = scheduler.latency.predict(16, costs.as_run(16, job.cost, 16 * usual))
                if now + alike * (1 + scheduler.latency.margin) < job.deadline:
                    assert finish <= job.deadline * (1 + 1e-9)
        return True

    for event, tenant, cost, size, priority, patience in events:
        if event == "submit":
            job = TenantJob(now, size, now + patience, None, cost, tenant=tenant, priority=priority)
            try:
                scheduler.submit(job)
            except BatchingError:
                continue
            jobs.append(job)
        elif event == "cancel" and jobs and scheduler.cancel(jobs[-1]):
            ended.append(jobs[-1])
        elif event == "next":
            step()
        elif event == "finish" and running:
            now += 1e-3
            scheduler.finish(running.pop(0), Outcome.DONE, now)
        elif event == "wait":
            now += 5e-3
    for _ in range(10 * len(jobs) + 1):
        while step():
            pass
        now += 5e-3
        if running:
            scheduler.finish(running.pop(0), Outcome.DONE, now)
    assert scheduler.items == 0
    assert sorted(map(id, ended)) == sorted(map(id, jobs))


def test_a_batch_is_chosen_without_a_look_at_all_that_wait() -> None:
    """A hundred thousand of a thousand tenants: a batch of 16 looks at a few dozen jobs."""
    scheduler = shared(Costs(padded=True))
    looked = 0

    class Job(TenantJob):
        __slots__ = ()

        def __getattribute__(self, name: str) -> object:
            nonlocal looked
            looked += name == "deadline"
            return super().__getattribute__(name)

    for number in range(100_000):
        scheduler.submit(Job(0.0, cost=10.0 + number * 7919 % 1000, tenant=number % 1000))
    looked = 0
    for _ in range(20):
        scheduler.finish(released(scheduler.next(0.0)), Outcome.FAILED, 0.0)
    assert looked < 20 * 1000


@pytest.mark.parametrize("tenant", ["short", "long"])
@pytest.mark.parametrize("times", [10.0, 30.0])
def test_what_is_ahead_of_a_job_is_counted_by_the_time_that_it_takes(
    tenant: str, times: float
) -> None:
    """Beside a tenant with far longer texts: seconds until a job's batch leaves, as full batches
    of the usual cost.
    """
    costs = Costs(padded=True)
    scheduler = shared(costs)
    of_tenant = {"short": 30.0, "long": 30.0 * times}
    come(scheduler, 400, "short", of_tenant["short"])
    come(scheduler, 400, "long", of_tenant["long"])
    for _ in range(10):
        scheduler.finish(released(scheduler.next(0.0)), Outcome.FAILED, 0.0)
    job = TenantJob(0.0, cost=of_tenant[tenant], tenant=tenant)
    ahead = scheduler.queues[None].queue.ahead_of(job)
    scheduler.submit(job)
    seconds = 0.0
    while job.waiting:
        batch = released(scheduler.next(0.0))
        if job.waiting:
            seconds += batch.predicted
        scheduler.finish(batch, Outcome.FAILED, 0.0)
    usual = scheduler.latency.predict(16) / 16
    assert ahead * usual == pytest.approx(seconds, rel=0.25)
