"""Jobs that wait and don't cost the same: which of them leave together."""

from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adaptive_batching.core import (
    Batch,
    Costs,
    Fairness,
    Hold,
    Job,
    JobClass,
    Limits,
    Outcome,
    Scheduler,
    make_policy,
)
from adaptive_batching.core.queues.cost_groups import Terms
from adaptive_batching.core.queues.cost_queue import CostQueue
from adaptive_batching.errors import JobTooLarge
from tests.core.steps import released, run_out

TERMS = Terms(
    now=0.0,
    fixed=4e-3,
    per_size=0.0,
    per_cost=1.2e-6,
    margin=0.0,
    limit=64,
    max_cost=inf,
    usual=100.0,
)

JOBS = st.lists(
    st.tuples(
        st.floats(0, 0.2),  # seconds until the deadline
        st.one_of(st.just(0.0), st.floats(0.01, 1e5)),
        st.integers(1, 8),
    ),
    min_size=1,
    max_size=60,
)


def duration(costs: Costs, jobs: list[Job]) -> float:
    return TERMS.fixed + TERMS.per_cost * costs.of_jobs(jobs)


@given(
    drawn=JOBS,
    padded=st.booleans(),
    limit=st.integers(1, 64),
    most=st.sampled_from([inf, 2e6]),
    sizes=st.sampled_from([(), (1, 4, 16, 64), (8, 64)]),
)
def test_every_batch_has_the_most_urgent_job_and_costs_make_none_late(
    drawn: list[tuple[float, float, int]],
    *,
    padded: bool,
    limit: int,
    most: float,
    sizes: tuple[int, ...],
) -> None:
    """Until nothing waits: each job leaves once, and no limit is broken but by a job alone. A job
    that would be in time with a full batch of its like, or of the usual cost, is in time.
    """
    costs = Costs(padded=padded, max_batch_cost=most, sizes=sizes)
    queue = CostQueue(Costs(padded=padded, sizes=sizes))
    jobs = [Job(0.0, size, deadline, cost=cost) for deadline, cost, size in drawn]
    for job in jobs:
        queue.append(job)
    gone: list[Job] = []
    while queue.requests:
        head, mean_cost = queue.head, sum(job.cost for job in queue) / queue.items
        batch = queue.take_together(limit, TERMS._replace(limit=limit, max_cost=most))
        assert head in batch
        gone += batch
        if len(batch) > 1:
            assert sum(job.size for job in batch) <= limit
            assert costs.of_jobs(batch) <= most
            for job in batch:
                alike = costs.as_run(limit, job.cost, limit * mean_cost)
                if TERMS.fixed + TERMS.per_cost * alike < job.deadline:
                    assert duration(costs, batch) <= job.deadline * (1 + 1e-9)
    assert sorted(map(id, gone)) == sorted(map(id, jobs))
    assert (queue.items, queue.requests) == (0, 0)


@pytest.mark.parametrize("padded", [True, False])
def test_all_leave_together_whose_deadlines_come_in_another_order(*, padded: bool) -> None:
    """A batch of a hundred jobs, the newest with the earliest deadline."""
    queue = CostQueue(Costs(padded=padded))
    jobs = [Job(float(number), deadline=500.0 - number, cost=7.0) for number in range(100)]
    for job in jobs:
        queue.append(job)
    assert queue.take_together(100, TERMS._replace(limit=100)) == jobs
    assert queue.requests == 0


def test_a_job_leaves_with_its_neighbours_by_cost() -> None:
    """A hundred short and a hundred long ones: no short one is padded to the long ones' length."""
    queue = CostQueue(Costs(padded=True))
    for number in range(200):
        queue.append(Job(0.0, deadline=1.0, cost=500.0 if number % 2 else 10.0))
    batches = [queue.take_together(64, TERMS) for _ in range(4)]
    assert all(len({job.cost for job in batch}) == 1 for batch in batches)
    assert [len(batch) for batch in batches] == [64, 64, 36, 36]


def test_a_worker_that_has_time_takes_what_is_there() -> None:
    """Two jobs that differ fiftyfold are sooner done in one batch than in two."""
    queue = CostQueue(Costs(padded=True))
    for cost in (10.0, 500.0):
        queue.append(Job(0.0, deadline=1.0, cost=cost))
    assert len(queue.take_together(64, TERMS)) == 2


@pytest.mark.parametrize("fairness", [None, Fairness()])
def test_a_dear_job_that_was_cancelled_hides_no_cheap_ones(fairness: Fairness | None) -> None:
    """Beside 2^53 the costs of all others are lost to a plain sum, for as long as any waits."""
    limits = Limits(64, costs=Costs())
    scheduler = Scheduler(make_policy("window:1h"), limits, fairness=fairness)
    for _ in range(20):
        scheduler.submit(Job(0.0, cost=3e-4))
    groups = scheduler.queues[None].queue.groups
    assert groups is not None
    dear = Job(0.0, cost=2.0**53)
    scheduler.submit(dear)
    assert groups.cost == pytest.approx(2.0**53)
    assert scheduler.cancel(dear)
    assert groups.cost == pytest.approx(20 * 3e-4)


class Watched(Job):
    """Counts how often it is asked whether it still waits."""

    looks = 0

    @property
    def queue(self) -> object:  # type: ignore[override]
        type(self).looks += 1
        return self.waits_in

    @queue.setter
    def queue(self, queue: object) -> None:
        self.waits_in = queue


@pytest.mark.parametrize("fairness", [None, Fairness()])
@pytest.mark.parametrize("newer", [0.0, -1.0])
def test_jobs_that_have_left_are_not_looked_at_again(
    fairness: Fairness | None, newer: float
) -> None:
    """A hundredth batch of a long queue takes no longer to choose than the tenth."""
    limits = Limits(16, costs=Costs(padded=True))
    scheduler, looks = Scheduler(make_policy("greedy"), limits, fairness=fairness), list[int]()
    for number in range(4_000):
        deadline = 1e6 + newer * number  # in the order in which they came, or in another
        scheduler.submit(Watched(0.0, deadline=deadline, cost=100.0))
    for _ in range(100):
        before = Watched.looks
        scheduler.finish(released(scheduler.next(0.0)), Outcome.FAILED, 0.0)
        looks.append(Watched.looks - before)
    assert looks[-1] <= 1.5 * looks[10]


def test_a_sum_of_costs_is_no_reason_to_sort() -> None:
    """Without padding the most urgent jobs leave, whatever they cost."""
    queue = CostQueue(Costs())
    jobs = [Job(0.0, deadline=1.0 + number, cost=float(number % 7)) for number in range(100)]
    for job in jobs:
        queue.append(job)
    assert queue.take_together(64, TERMS) == jobs[:64]


def test_what_fills_a_batch_up_costs_as_well() -> None:
    """Five texts of 200 tokens run as eight: 1,600 tokens, for which there is no memory."""
    costs = Costs(padded=True, max_batch_cost=1000.0)
    scheduler = Scheduler(make_policy("greedy"), Limits(8, costs=costs, sizes=(4, 8)))
    for _ in range(5):
        scheduler.submit(Job(0.0, cost=200.0))
    batches = [released(step) for step in run_out(scheduler, lambda _: 0.01)]
    assert [(batch.size, batch.padded_size, batch.cost) for batch in batches] == [
        (4, 4, 800.0),
        (1, 4, 800.0),
    ]
    with pytest.raises(JobTooLarge, match="=1000, got 260, which runs as 4 items: 1040"):
        scheduler.submit(Job(1.0, cost=260.0))


def test_sizes_that_change_are_counted_from_then_on() -> None:
    """Jobs wait while the model is loaded anew, which fills batches up to eight: for two of them
    there is room alone only.
    """
    costs = Costs(padded=True, max_batch_cost=1000.0)
    policy = make_policy("greedy")
    scheduler = Scheduler(policy, Limits(8, costs=costs, sizes=(1, 2, 4, 8)))
    for _ in range(3):
        scheduler.submit(Job(0.0, cost=200.0))
    scheduler.retune(policy, Limits(8, costs=costs, sizes=(1, 8)))
    left = [released(step) for step in run_out(scheduler, lambda _: 0.01)]
    assert [(batch.size, batch.cost) for batch in left] == [(1, 200.0)] * 3


@pytest.mark.parametrize(
    ("costs", "others", "told"),
    [
        (None, Costs(), "expected none, by which the jobs that wait are counted, got Costs"),
        (Costs(), None, "expected costs with padded=False, .*, got None"),
        (Costs(padded=True), Costs(), "expected costs with padded=True, .*: start another disp"),
    ],
)
def test_jobs_that_wait_keep_the_way_in_which_they_are_counted(
    costs: Costs | None, others: Costs | None, told: str
) -> None:
    """Costs that begin, end or add up otherwise are refused; then all is as it was before."""
    limits = Limits(8, costs=costs)
    scheduler = Scheduler(make_policy("window:1h"), limits, classes={"c": JobClass(limits)})
    scheduler.submit(Job(0.0, cost=200.0))
    with pytest.raises(ValueError, match=f"costs: {told}"):
        scheduler.retune(make_policy("greedy"), Limits(8, costs=others))
    with pytest.raises(ValueError, match=f"costs: {told}"):
        scheduler.retune_class("c", Limits(8, costs=others))
    assert (scheduler.limits, scheduler.classes["c"].limits) == (limits, limits)
    assert isinstance(scheduler.next(0.0), Hold)


@example(costs=[2.9] * 13, most=3.0, padded=True, sizes=(1, 4, 16, 64))  # rounded up
@given(
    costs=st.lists(st.floats(0.0, 1e9), min_size=1, max_size=20),
    most=st.floats(0.1, 1e9),
    padded=st.booleans(),
    sizes=st.sampled_from([(), (1, 4, 16, 64), (8, 64)]),
)
def test_a_part_of_a_request_costs_no_more_than_a_batch_may(
    costs: list[float], most: float, *, padded: bool, sizes: tuple[int, ...]
) -> None:
    """Any so many of its items fit; a request that can't be cut counts as a full batch at most."""
    limits = Limits(64, costs=Costs(padded, most, sizes=sizes), sizes=sizes)
    adding = limits.costs
    assert adding is not None
    size, cost = len(costs), adding.of_items(costs)
    counted = adding.at_most(cost, size)
    adding.check(Job(0.0, size, cost=counted))
    assert counted == pytest.approx(
        min(cost, most * cost / adding.as_run(size, cost, cost) if cost else 0.0)
    )
    try:
        items = adding.most_items(costs)
    except JobTooLarge:
        return
    dearest = sorted(costs)[-items:]
    assert adding.of_batch(dearest) <= most * (1 + 1e-9)


@given(
    drawn=st.lists(st.tuples(st.floats(0.0, 1e9), st.booleans()), min_size=1, max_size=20),
    padded=st.booleans(),
    sizes=st.sampled_from([(), (1, 4, 16, 64), (8, 64), (1, 2, 4, 8)]),
)
def test_calls_of_some_items_cost_no_more_than_their_batch(
    drawn: list[tuple[float, bool]], *, padded: bool, sizes: tuple[int, ...]
) -> None:
    """Nor more than the dearest by itself, which was let in; all of them run."""
    costs = Costs(padded, 1e30, sizes=sizes)
    whole = [cost for cost, _ in drawn]
    apart = sorted((cost for cost, is_apart in drawn if is_apart), reverse=True)
    most = max(costs.of_batch(whole), *(costs.of_batch([each]) for each in whole))
    for size in costs.calls(len(apart), len(whole)):
        call, apart = apart[:size], apart[size:]
        assert costs.of_batch(call) <= most * (1 + 1e-9)
    assert not apart


def test_the_batch_of_a_job_is_predicted_as_it_leaves() -> None:
    """64 texts for whose memory eight fit in a batch take as long as eight, as seen from each."""
    costs = Costs(padded=True, max_batch_cost=8000.0)
    scheduler = Scheduler(make_policy("cork"), Limits(64, 1.0, costs=costs))
    scheduler.rehearse((0, size, 1e-5 * 1000 * size, 1000.0 * size) for size in (1, 4, 8) * 9)
    scheduler.rehearse((0, size, 1e-5 * 100 * size, 100.0 * size) for size in (1, 16, 64) * 9)
    for _ in range(64):
        scheduler.submit(Job(0.0, deadline=1.0, cost=1000.0))
    at = scheduler.queues[None].situation(0.0)
    job = Job(0.0, deadline=1.0, cost=1000.0)
    assert at.predict_with(at.head, 64) == pytest.approx(80e-3, rel=0.05)
    assert at.predict_joined(job, 64) == pytest.approx(80e-3, rel=0.05)
    for _ in run_out(scheduler, lambda batch: 1e-5 * batch.cost):
        pass
    at = scheduler.queues[None].situation(1.0)
    assert at.predict_joined(job, 64) == pytest.approx(10e-3, rel=0.1)


@pytest.mark.parametrize("fairness", [None, Fairness()])
def test_a_batch_up_to_the_knee_leaves_as_it_is_predicted(fairness: Fairness | None) -> None:
    """Batches of eight answer most, and 40 jobs wait that would be fewer batches without a knee."""
    limits = Limits(64, costs=Costs(padded=True))
    scheduler = Scheduler(make_policy("cork"), limits, fairness=fairness)
    for size in (1, 2, 4, 8) * 8:
        for each in (10.0, 14.0, 20.0, 40.0):
            scheduler.latency.observe(size, 4e-3 + 50e-6 * size * each, size * each)
    scheduler.latency.peak.limit = 8
    for number in range(40):
        cost = (10.0, 14.0, 20.0, 28.0, 40.0)[number % 5]
        scheduler.submit(Job(1e-6 * number, cost=cost))
    at = scheduler.queues[None].situation(1e-3).up_to(8)
    predicted = at.predict_with(at.head, 8)
    assert released(scheduler.next(1e-3)).predicted == pytest.approx(predicted)


def test_a_pad_cost_beyond_what_a_batch_may_cost_is_refused() -> None:
    """Every item would be padded to it, and none could ever run."""
    with pytest.raises(ValueError, match="the first to be at most max_batch_cost=256, got"):
        Costs(padded=True, max_batch_cost=256.0, pad_costs=(512.0, 1024.0))


def test_no_batch_costs_more_than_its_limit() -> None:
    """For a memory of 1,000 tokens: ten texts of a hundred; one of 1,001 is refused."""
    costs = Costs(padded=True, max_batch_cost=1000.0)
    scheduler = Scheduler(make_policy("greedy"), Limits(64, costs=costs))
    for _ in range(25):
        scheduler.submit(Job(0.0, cost=100.0))
    with pytest.raises(JobTooLarge, match="expected a cost of at most max_batch_cost=1000, got 10"):
        scheduler.submit(Job(0.0, cost=1001.0))
    with pytest.raises(ValueError, match=r"cost: expected a number from 0 to 9\.0072e\+15, got -1"):
        scheduler.submit(Job(0.0, cost=-1.0))
    sizes = []
    while scheduler.items:
        batch = scheduler.next(0.0)
        assert isinstance(batch, Batch)
        sizes.append((batch.size, batch.cost))
        scheduler.finish(batch, Outcome.DONE, 1e-3)
    assert sizes == [(10, 1000.0), (10, 1000.0), (5, 500.0)]


@given(drawn=JOBS, padded=st.booleans(), data=st.data())
def test_cancelled_and_expired_jobs_are_in_no_batch(
    drawn: list[tuple[float, float, int]], *, padded: bool, data: st.DataObject
) -> None:
    """Whatever leaves the queue, each job has one end."""
    limits = Limits(16, 0.2, costs=Costs(padded=padded))
    scheduler = Scheduler(make_policy("cork"), limits)
    jobs = [Job(0.0, size, 0.01 + deadline, cost=cost) for deadline, cost, size in drawn]
    for job in jobs:
        scheduler.submit(job)
    cancelled = data.draw(st.lists(st.sampled_from(jobs), unique=True))
    ended = [job for job in cancelled if scheduler.cancel(job)]
    for step in run_out(scheduler, lambda _: 0.02):
        ended += step.jobs
    assert sorted(map(id, ended)) == sorted(map(id, jobs))


def test_callers_that_always_come_together_are_parted_by_cost() -> None:
    """Twelve short texts and twelve long ones, sent again at once when all were answered: to one
    batch of all, nothing would ever tell what costs matter.
    """

    def seconds(batch: Batch) -> float:
        return 4e-3 + 4.8e-6 * batch.cost

    limits = Limits(64, costs=Costs(padded=True))
    scheduler, now = Scheduler(make_policy("cork"), limits), 0.0
    mixed = []
    while len(mixed) < 100:
        for number in range(24):
            scheduler.submit(Job(now, cost=500.0 if number % 2 else 10.0))
        for step in run_out(scheduler, seconds, now):
            batch = released(step)
            mixed.append(len({job.cost for job in batch.jobs}) > 1)
            now = batch.released + seconds(batch)
    assert not any(mixed[20:])
