"""What Cork gains, and what it never does: told through the simulator.

The workers take 5 ms and 0.05 ms an item, 64 items at the most: 7,805 requests a second each.
"""

import random
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

import pytest

from adaptive_batching.core import (
    Batch,
    Hold,
    Job,
    JobOutcome,
    Limits,
    Outcome,
    Reason,
    Scheduler,
    Shed,
    ShedReason,
    make_policy,
)
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.simulation import (
    ClosedLoop,
    Experiment,
    Lots,
    Row,
    Server,
    Span,
    clumped,
    poisson,
    simulate,
)
from tests.core.steps import released, submit

SERVER = Server(5e-3, 5e-5)
SERVICE = SERVER.service()
FULL = 64
CAPACITY = FULL / SERVICE(FULL)  # requests a second and worker


def compare(
    policy: str, workers: int, load: float, max_latency: float = inf, seconds: float = 8.0
) -> Row:
    """Poisson traffic at a share of the capacity, the same for every policy."""
    arrivals = poisson(load * CAPACITY * workers, seconds, seed=1)
    limits = Limits(FULL, max_latency)
    return Experiment(arrivals, SERVER, limits, warmup=1.0).run(policy, workers)


def trained(
    max_latency: float = inf,
    workers: int = 1,
    max_batch_size: int = FULL,
    duration: Callable[[int], float] = SERVICE,
) -> Scheduler:
    """A scheduler that has seen batches of many sizes, long before 0."""
    scheduler = Scheduler(Cork(), Limits(max_batch_size, max_latency), workers)
    for size in [1, 2, 4, 8, max_batch_size] * 40:
        scheduler.latency.observe(min(size, max_batch_size), duration(min(size, max_batch_size)))
    return scheduler


def closed_loop(policy: str, callers: int, workers: int, seconds: float) -> list[int]:
    """Callers that send again within half a millisecond of their answer: the sizes of batches."""
    scheduler = Scheduler(make_policy(policy), Limits(FULL), workers)
    events: list[tuple[float, int, Batch | Job | None]] = []
    for number in range(callers):
        heappush(events, (number * 1e-4, number, Job(number * 1e-4)))
    order, now, wake = callers, 0.0, inf
    sizes: list[int] = []
    while now < seconds:
        now = min(events[0][0], wake)
        while events and events[0][0] == now:
            event = heappop(events)[2]
            if isinstance(event, Job):
                scheduler.submit(event)
            elif isinstance(event, Batch):
                scheduler.finish(event, Outcome.DONE, now)
                sizes.append(event.size)
                for place in range(event.size):
                    order += 1
                    again = now + 0.5e-3 * (place + 1) / event.size
                    heappush(events, (again, order, Job(again)))
        while isinstance(step := scheduler.next(now), Batch):
            order += 1
            heappush(events, (now + SERVICE(step.size), order, step))
        assert isinstance(step, Hold)
        wake = step.until
    return sizes


# ----------------------------------------------------------------------------------- what it gains


@pytest.mark.no_cover
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_several_workers_are_spaced_out(load: float) -> None:
    """4 workers: at least 10 % less mean latency and 15 % less p99 than greedy, which bunches."""
    greedy, cork = compare("greedy", 4, load), compare("cork", 4, load)
    assert cork.mean_latency is not None
    assert greedy.mean_latency is not None
    assert cork.p99_latency is not None
    assert greedy.p99_latency is not None
    assert cork.mean_latency <= 0.90 * greedy.mean_latency
    assert cork.p99_latency <= 0.85 * greedy.p99_latency
    assert cork.release_gap_cv is not None
    assert greedy.release_gap_cv is not None
    assert cork.release_gap_cv < greedy.release_gap_cv
    assert cork.goodput == greedy.goodput == 1.0


@pytest.mark.no_cover
@pytest.mark.parametrize("load", [0.1, 0.3, 0.5, 0.8, 0.95])
def test_one_worker_does_not_wait(load: float) -> None:
    """With one worker and Poisson traffic, greedy is optimal: Cork stays within 1 % of it."""
    greedy, cork = (compare(policy, 1, load, seconds=10.0) for policy in ("greedy", "cork"))
    assert cork.mean_latency == pytest.approx(greedy.mean_latency, rel=0.01)
    assert cork.p99_latency == pytest.approx(greedy.p99_latency, rel=0.01)


@pytest.mark.no_cover
def test_tight_deadlines_at_high_load() -> None:
    """4 workers at 90 % with 12 ms from arrival to answer: 96 % and more are in time."""
    row = compare("cork", 4, 0.9, max_latency=0.012)
    assert row.goodput is not None
    assert row.goodput >= 0.96


@pytest.mark.no_cover
def test_a_job_that_comes_right_after_a_batch_can_wait_for_the_next() -> None:
    """Two workers, promises of 1.5 batches: as many in time, to 2 points, as if all left when due.

    Batches that leave at once leave in pairs, and what comes between two pairs is late.
    """
    server, full = Server(40e-3, 1e-4), 46.4e-3
    arrivals = clumped(0.6 * 2 * FULL / full, 4.0, seed=1, within=full / 50)
    experiment = Experiment(arrivals, server, Limits(FULL, 1.5 * full), warmup=1.5)
    cork, deferred, greedy = (
        experiment.run(policy, 2).goodput for policy in ("cork", "deferred", "greedy")
    )
    assert cork >= deferred - 0.02
    assert cork >= greedy + 0.1


NOISY = Server(5e-3, 5e-5, jitter=0.1, pause_probability=0.005, pause=10e-3)


@pytest.mark.no_cover
@pytest.mark.parametrize(("load", "least"), [(0.3, 0.99), (0.6, 0.985), (0.9, 0.955), (1.1, 0.85)])
def test_tight_deadlines_on_real_machines(load: float, least: float) -> None:
    """With jitter and pauses too; a point less than on the long run, for this one is short."""
    arrivals = poisson(load * CAPACITY * 4, 2.0, seed=1)
    row = Experiment(arrivals, NOISY, Limits(FULL, 12e-3), warmup=0.5).run("cork", 4)
    assert row.goodput is not None
    assert row.goodput >= least


@pytest.mark.no_cover
@pytest.mark.parametrize("load", [0.5, 0.7, 0.9])
def test_long_batches_let_no_needed_worker_idle(load: float) -> None:
    """Where most of a batch is work on its items, two workers are not slower than with greedy."""
    server = Server(2e-3, 5e-4, jitter=0.05)
    arrivals = poisson(load * 2 * 32 / 18e-3, 5.0, seed=1)
    experiment = Experiment(arrivals, server, Limits(32), warmup=0.5)
    greedy, cork = (experiment.run(policy, 2) for policy in ("greedy", "cork"))
    assert cork.mean_latency is not None
    assert greedy.mean_latency is not None
    assert cork.mean_latency <= 1.02 * greedy.mean_latency


@pytest.mark.parametrize("load", [0.02, 0.05])
def test_the_end_of_a_clump_is_known(load: float) -> None:
    """Fan-out into 8 in a millisecond, one worker: a quarter less than taking the first."""
    arrivals = clumped(load * CAPACITY, 6_000 / (load * CAPACITY), seed=3)
    experiment = Experiment(arrivals, SERVER, Limits(FULL), warmup=1.0)
    greedy, cork = experiment.run("greedy"), experiment.run("cork")
    assert cork.mean_latency is not None
    assert greedy.mean_latency is not None
    assert cork.mean_latency < 0.77 * greedy.mean_latency


def test_clumps_are_waited_for() -> None:
    """Callers that fan out into 8 requests within a millisecond: better than taking the first."""
    arrivals = clumped(400.0, 20.0, seed=3)
    experiment = Experiment(arrivals, SERVER, Limits(FULL), warmup=2.0)
    greedy, cork = experiment.run("greedy"), experiment.run("cork")
    assert cork.mean_latency is not None
    assert greedy.mean_latency is not None
    assert cork.mean_latency < greedy.mean_latency


def test_a_closed_loop_is_not_split_in_halves() -> None:
    """64 callers that send again when answered: one batch of all, not two alternating halves.

    Greedy takes the first that comes, and the rest waits for it: for ever.
    """
    greedy, cork = (closed_loop(policy, 64, 1, 2.0) for policy in ("greedy", "cork"))
    assert sum(greedy[-50:]) / 50 < 40
    assert cork[-50:] == [64] * 50


def callers(policy: str, turnaround: Span, max_latency: float = inf) -> float:
    """Answers a second to 58 callers who send again when answered, after a turnaround."""
    again = ClosedLoop(58, 6.0, Span(0.0, 0.0), turnaround, seed=1)
    limits = Limits(FULL, max_latency)
    row = Experiment(again, SERVER, limits, loop_delay=0.25e-3, warmup=2.0).run(policy)
    return row.throughput * row.goodput


def test_callers_that_are_slow_to_come_back_share_a_batch_as_well() -> None:
    """Their way takes more than half of a batch, and one of all still answers more than halves."""
    greedy, cork = (callers(policy, Span(1e-3, 4e-3)) for policy in ("greedy", "cork"))
    assert cork > 1.05 * greedy


@pytest.mark.parametrize(("users", "workers"), [(64, 1), (96, 3)])
def test_a_coarse_timer_does_not_part_callers_who_come_back_together(
    users: int, workers: int
) -> None:
    """It may wake no sooner than half a batch later; but the last of them ends the hold itself."""
    fine, coarse = (
        Experiment(
            ClosedLoop(users, 0.5, Span(0.0, 0.0), Span(0.05e-3, 0.15e-3), seed=1),
            Server(2e-3, 5e-6),
            Limits(FULL),
            warmup=0.2,
            timer_resolution=resolution,
        ).run("cork", workers)
        for resolution in (0.0, 1e-3)
    )
    assert coarse.on_time > 0.98 * fine.on_time


@pytest.mark.parametrize("callers", [2, 5, 10, 20, 40, 100, 200])
def test_callers_who_are_all_back_are_not_held(callers: int) -> None:
    """They send again in one turn of a live loop, whose timer would fire half a batch later."""
    scheduler = Scheduler(Cork(), Limits(256))
    now, held = 0.0, []
    for _ in range(80):
        for _ in range(callers):
            now += 1e-6
            scheduler.submit(Job(now))
        begin = now
        while isinstance(step := scheduler.next(now), Hold):
            now = max(step.until, now + 0.5e-3)
        held.append(now > begin)
        now += 1e-3 + 1e-5 * released(step).size
        scheduler.finish(released(step), Outcome.DONE, now)
    assert sum(held[-20:]) <= 2


def on_time(callers: int, model: Server, turnaround: Span, workers: int, policy: str) -> int:
    """Answers in time to callers who send again when answered, as through a live event loop."""
    again = ClosedLoop(callers, 8.0, Span(0.0, 0.0), turnaround, seed=1)
    experiment = Experiment(again, model, Limits(8), warmup=2.0, loop_delay=0.25e-3)
    return experiment.run(policy, workers).on_time


@pytest.mark.parametrize(("model", "workers"), [((20e-3, 5e-3), 4), ((2e-3, 0.5e-3), 8)])
def test_a_fan_out_for_which_enough_workers_are_idle_is_not_held(
    model: tuple[float, float], workers: int
) -> None:
    """Three requests at once find three workers idle, though others run."""
    fixed, per_item = model
    rate = 0.9 / (fixed + 3 * per_item)
    arrivals = clumped(rate, 2_000 / rate, seed=1, clump=3, within=1e-5)
    greedy, cork = (
        Experiment(arrivals, Server(*model, jitter=0.1), Limits(32), loop_delay=0.25e-3, seed=1)
        .run(policy, workers)
        for policy in ("greedy", "cork")
    )  # fmt: skip
    assert cork.mean_latency <= 1.02 * greedy.mean_latency
    assert cork.p99_latency <= 1.05 * greedy.p99_latency


@pytest.mark.parametrize(("callers", "workers"), [(2, 2), (2, 4), (3, 3)])
def test_callers_with_a_worker_each_are_not_held_for_each_other(callers: int, workers: int) -> None:
    """A request that misses a batch finds another worker idle."""
    model, turnaround = Server(2e-3, 3e-3), Span(0.5e-3, 1e-3)
    greedy, cork = (
        on_time(callers, model, turnaround, workers, policy) for policy in ("greedy", "cork")
    )
    assert cork >= 0.97 * greedy


def test_callers_who_come_back_together_share_the_idle_workers() -> None:
    """Four and four run beside each other in less time than eight in one batch."""
    model, turnaround = Server(20e-3, 2e-3), Span(1e-3, 3e-3)
    greedy, all_at_once, cork = (
        on_time(8, model, turnaround, 2, policy) for policy in ("greedy", "window:5ms", "cork")
    )
    assert cork >= 1.25 * greedy
    assert cork >= 1.15 * all_at_once


def test_a_promise_that_is_easily_kept_changes_no_hold() -> None:
    """Two full batches would be late, but far smaller ones run: bunching makes no job late."""
    arrivals = poisson(240.0, 20.0, seed=1)
    loose, tight = (
        Experiment(arrivals, Server(2e-3, 3e-3), Limits(FULL, within), warmup=2.0).run("cork", 2)
        for within in (inf, 0.1)
    )
    assert tight.mean_latency == pytest.approx(loose.mean_latency, rel=0.02)


def test_a_promise_that_is_kept_costs_no_answers() -> None:
    """Within 1.5 full batches callers are answered as often as if they had all the time."""
    again = ClosedLoop(13, 20.0, Span(0.0, 0.0), Span(24e-3, 71e-3), seed=2)
    model = Server(143e-3, 0.245e-3)
    loose, tight = (
        Experiment(again, model, Limits(FULL, within), warmup=2.0).run("cork", 2)
        for within in (inf, 1.5 * (143e-3 + FULL * 0.245e-3))
    )
    assert tight.on_time >= 0.99 * loose.on_time


def test_a_batch_does_not_wait_for_callers_whom_it_could_not_answer_in_time() -> None:
    """A hold that a deadline would end before the callers are back is time lost."""
    promise = 1.5 * SERVICE(FULL)
    greedy, cork = (callers(policy, Span(1e-3, 4e-3), promise) for policy in ("greedy", "cork"))
    assert cork > 0.98 * greedy


def test_nobody_is_waited_for_who_can_not_come() -> None:
    """A queue of one place is full with its first job: holding it gains nothing."""
    arrivals = poisson(3000.0, 2.0, seed=1)
    experiment = Experiment(arrivals, SERVER, Limits(FULL, max_queue=1))
    cork, greedy = experiment.run("cork"), experiment.run("greedy")
    assert cork.goodput == greedy.goodput


def test_requests_of_several_items_are_spaced_out_too() -> None:
    """Four items a request: those who wait are counted in requests, what a worker does in items.

    Counting a request's items as so many who wait, it gained 5 % on greedy where it can gain 15 %.
    """
    rng = random.Random(8)
    sizes = [min(1 + int(rng.expovariate(0.29)), 16) for _ in range(8000)]
    rate = 0.6 * CAPACITY * 4 / (sum(sizes) / len(sizes))
    arrivals = poisson(rate, 5000 / rate, seed=8)
    means = {}
    for policy in ("greedy", "cork"):
        scheduler = Scheduler(make_policy(policy), Limits(FULL), 4)
        history = simulate(arrivals, scheduler, SERVICE, sizes=sizes[: len(arrivals)])
        means[policy] = sum(job.latency for job in history.jobs) / len(history.jobs)
    assert means["cork"] < 0.9 * means["greedy"]


def test_no_worker_is_left_idle_that_the_load_of_all_keys_needs() -> None:
    """By the load of one key of three there were always workers to spare, and the mean +9 %."""
    arrivals, keys = poisson(0.95 * 4 * 16 / 18e-3, 8.0, seed=1), Lots(3, 0.0, seed=1)
    experiment = Experiment(arrivals, Server(2e-3, 1e-3), Limits(16, 0.2), keys=keys, warmup=1.0)
    cork, greedy = (experiment.run(policy, 4).mean_latency for policy in ("cork", "greedy"))
    assert cork is not None
    assert greedy is not None
    assert cork <= 1.02 * greedy


# ------------------------------------------------------------------------------ deadlines, shedding


def test_a_cold_start_refuses_nothing() -> None:
    """Before the first batch it knows nothing, and forces nothing."""
    scheduler = Scheduler(Cork(), Limits(32, max_latency=1.0))
    jobs = submit(scheduler, 100, 0.0, patience=1.0)
    step = scheduler.next(0.0)
    assert isinstance(step, Batch)
    assert (step.jobs, step.reason) == (jobs[:32], Reason.FULL)


@pytest.mark.no_cover
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("load", [0.2, 0.6])
def test_holds_never_pass_the_deadline(workers: int, load: float) -> None:
    """With time to spare at arrival, nobody is late or expires because a batch was held."""
    arrivals = poisson(load * CAPACITY * workers, 5.0, seed=4)
    limits = Limits(FULL, max_latency=0.03)
    history = simulate(arrivals, Scheduler(Cork(), limits, workers), SERVER.service())
    assert all(job.outcome is JobOutcome.DONE for job in history.jobs)
    assert all(job.finished <= job.arrived + 0.03 for job in history.jobs)


def test_the_head_is_released_when_its_deadline_says_so() -> None:
    """With one of two workers busy for long, a hold ends in time for the oldest job."""
    scheduler = trained(max_latency=0.02, workers=2)
    now = 0.0
    for _ in range(400):  # a stream that makes holding worth it
        now += 1e-4
        job = Job(now, deadline=now + 0.02)
        scheduler.submit(job)
        while not isinstance(step := scheduler.next(now), Hold):
            if isinstance(step, Batch) and len(scheduler.permits.running) == 2:
                scheduler.finish(step, Outcome.DONE, now + 1e-9)
        deadlines = [
            job.deadline for view in scheduler._queues.views.values() for job in view.queue
        ]
        assert step.until <= min(deadlines, default=inf)


def held_beside_a_full_batch(promise: float, rate: float, left: float = 1.0) -> float:
    """How long a lone job is held (full batches) beside one, which takes as long as is left."""
    full = SERVICE(FULL)
    scheduler = trained(promise * full, workers=2)
    seen = simulate([number / rate for number in range(500)], scheduler, SERVICE)
    now = max(batch.finished for batch in seen.batches)
    scheduler.submit(Job(now, FULL))
    assert isinstance(scheduler.next(now), Batch)
    now += (1.0 - left) * full
    submit(scheduler, 1, now, patience=promise * full)
    step = scheduler.next(now)
    return (step.until - now) / full if isinstance(step, Hold) else 0.0


def test_the_last_idle_worker_is_held_until_a_job_that_misses_it_is_in_time() -> None:
    """Within 1.5 full batches for half of one: what comes later can wait for the other half."""
    assert held_beside_a_full_batch(1.5, rate=5000.0) == pytest.approx(0.5, rel=0.01)


def test_the_last_idle_worker_is_not_held_for_a_job_that_can_not_be_in_time() -> None:
    """Within less than a full batch none can, so it is held until the other is free at most."""
    assert held_beside_a_full_batch(0.95, rate=5000.0, left=0.1) <= 0.1


def test_the_last_idle_worker_is_not_held_if_no_other_job_is_expected() -> None:
    """Fifty a second are a fifth of a job in half a batch."""
    assert held_beside_a_full_batch(1.5, rate=50.0) == 0.0


def test_shedding_one_by_one() -> None:
    """Only the oldest, whose time is too short, are shed: each one makes the batch shorter.

    100 jobs take 15 ms, 50 take 10: with 12 ms left, it takes those out that save the rest.
    """
    scheduler = trained(max_batch_size=100, duration=lambda size: 5e-3 + 1e-4 * size)
    hasty = submit(scheduler, 100, 0.0, patience=0.012)
    step = scheduler.next(0.0)
    assert isinstance(step, Shed)
    assert step.reason is ShedReason.HOPELESS
    assert step.jobs == hasty[: len(step.jobs)]
    assert 25 <= len(step.jobs) <= 35  # 70 items take 12 ms
    batch = scheduler.next(0.0)
    assert isinstance(batch, Batch)
    assert len(batch.jobs) == 100 - len(step.jobs)


def test_an_extrapolation_sheds_nothing() -> None:
    """After batches of one only, nobody of a burst is shed, and as many leave as is safe (B1).

    Batches of one may be all slope: ten of 0.1 s each are sure to be in time.
    """
    scheduler = Scheduler(Cork(), Limits(100, max_latency=1.0))
    for _ in range(70):
        scheduler.latency.observe(1, 0.1)
    submit(scheduler, 100, 100.0, patience=1.0)
    step = scheduler.next(100.0)
    assert isinstance(step, Batch)
    assert (step.size, scheduler.items) == (10, 90)


def test_where_nothing_would_be_safe_a_full_batch_is_tried() -> None:
    """All slope would leave time for two: limits of 100 within 0.25 s say that it is not."""
    scheduler = Scheduler(Cork(), Limits(100, max_latency=0.25))
    for _ in range(7):
        scheduler.latency.observe(1, 0.1)
    submit(scheduler, 100, 100.0, patience=0.25)
    assert released(scheduler.next(100.0)).size == 100


def test_a_size_that_ran_is_not_divided_for_a_slope_that_nothing_has_shown() -> None:
    """Before the fit is trusted nothing is shed: one late job is no reason for half a batch."""
    scheduler = Scheduler(Cork(), Limits(100, max_latency=0.5))
    for _ in range(2):
        scheduler.latency.observe(10, 0.1)
    submit(scheduler, 20, 100.0, patience=0.5)
    assert released(scheduler.next(100.45)).size == 10


def test_a_batch_that_took_far_too_long_is_not_doubled() -> None:
    """After two batches nothing is shed, but 22 items in 22 s are evidence against 44 (A4)."""
    scheduler = Scheduler(Cork(), Limits(100, max_latency=9.5))
    scheduler.latency.observe(1, 1.1)
    scheduler.latency.observe(22, 22.1)
    submit(scheduler, 100, 100.0, patience=9.5)
    step = scheduler.next(100.0)
    assert isinstance(step, Batch)
    assert 5 <= step.size <= 10


def test_a_probe_breaks_a_wrong_fit() -> None:
    """When all looks hopeless for one max_latency, a batch leaves all the same: as a probe."""
    scheduler = trained(max_latency=0.1, duration=lambda size: 1.0)
    submit(scheduler, 3, 50.0, patience=0.1)
    step = scheduler.next(50.0)
    assert isinstance(step, Batch)
    assert step.reason is Reason.PROBE
    scheduler.finish(step, Outcome.DONE, 50.001)
    submit(scheduler, 3, 50.002, patience=0.1)
    assert isinstance(scheduler.next(50.002), Shed)


class _Watched(Scheduler):
    """Remembers when the newest batch left, so that its duration may depend on it."""

    released = 0.0

    def next(self, now: float) -> Batch | Shed | Hold:
        step = super().next(now)
        if isinstance(step, Batch):
            self.released = now
        return step


def test_a_model_that_recovers_is_found_out() -> None:
    """Slow for ten seconds, so that nothing can be in time, then fast again: so is the goodput."""
    scheduler = _Watched(Cork(), Limits(16, max_latency=0.2))

    def service(size: int) -> float:
        return (0.5 if 5.0 <= scheduler.released < 15.0 else 0.02) + 0.002 * size

    history = simulate(poisson(60.0, 30.0, seed=5), scheduler, service)
    later = [job for job in history.jobs if job.arrived > 17.0]
    in_time = [
        job for job in later if job.outcome is JobOutcome.DONE and job.finished <= job.arrived + 0.2
    ]
    assert len(in_time) >= 0.98 * len(later)
    assert any(batch.reason is Reason.PROBE for batch in history.batches)


def test_refusal_needs_a_busy_worker() -> None:
    """While a worker is idle nobody is refused at the door, whatever the prediction."""
    scheduler = trained(max_latency=0.1, duration=lambda size: 1.0)
    submit(scheduler, 1, 50.0, patience=0.1)
    assert scheduler.items == 1


def test_refusal_without_any_worker() -> None:
    """While every worker is being replaced, a call waits or is refused; it is no error of ours."""
    scheduler = trained(max_latency=1.0, workers=0, max_batch_size=1)
    submit(scheduler, 1, 50.0, patience=1.0)
    scheduler.submit(Job(50.0, deadline=50.0001))
    assert scheduler.items == 2


def test_who_is_left_of_a_flood_is_not_held_until_it_is_forgotten() -> None:
    """Nearly all callers have gone: the rest of a full batch is not on its way any more."""
    scheduler = trained(workers=2)
    flood = submit(scheduler, 50 * FULL, 0.0)
    running = []
    while isinstance(step := scheduler.next(0.0), Batch):
        running.append(step)
    for job in flood[:-3]:
        scheduler.cancel(job)
    for batch in running:
        scheduler.finish(batch, Outcome.DONE, SERVICE(FULL))
    left = scheduler.next(2 * SERVICE(FULL))
    assert isinstance(left, Batch)
    assert left.jobs == flood[-3:]


def test_a_lone_request_after_a_flood() -> None:
    """It waits for others no longer than a full batch takes, beside workers that are idle."""
    scheduler = trained(workers=2)
    for job in submit(scheduler, 50 * FULL, 0.0):
        scheduler.cancel(job)
    submit(scheduler, 1, 20e-3)
    now = 20e-3
    while isinstance(step := scheduler.next(now), Hold):
        now = step.until
    assert now <= 20e-3 + SERVICE(FULL) * 1.01


def test_after_a_pause_of_the_process_it_holds_again() -> None:
    """One wake-up came later than any promise would bear; the next ones are in time."""
    scheduler = trained(max_latency=0.1, workers=4)
    scheduler._timer_lateness.due = 0.0
    scheduler._timer_lateness.woke(1.0)
    reasons: list[Reason] = []
    ends: list[tuple[float, Batch]] = []
    until, now = inf, 1.0
    arrivals = now + poisson(0.4 * CAPACITY, 2.0, seed=1)
    for arrived in arrivals.tolist():
        while now < arrived:
            now = min(arrived, until, *(end for end, _ in ends))
            for end, batch in [each for each in ends if each[0] <= now]:
                ends.remove((end, batch))
                scheduler.finish(batch, Outcome.DONE, now)
            if now == arrived:
                submit(scheduler, 1, now, 0.1)
            while isinstance(step := scheduler.next(now), Batch):
                ends.append((now + SERVICE(step.size), step))
                reasons.append(step.reason)
            assert isinstance(step, Hold)
            until = step.until
    assert Reason.DEADLINE not in reasons[-100:]
    assert scheduler._timer_lateness.late < 0.1
