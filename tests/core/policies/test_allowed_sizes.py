"""Batches of a model that was compiled for a few sizes, and pads all others to the next of them."""

from dataclasses import replace
from itertools import product
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.core import (
    Batch,
    Costs,
    Fairness,
    Job,
    Limits,
    Outcome,
    Scheduler,
    TenantJob,
    make_policy,
)
from adaptive_batching.core.estimators.peak_size import PeakSize
from adaptive_batching.simulation import Experiment, Padded, Server, poisson, simulate
from tests.core.steps import released, run_out, submit

SIZES = (8, 16, 32, 64)
CURVE = Server(5e-3, 0.3e-3)  # seconds, and for each item that is run


def batches(waiting: int, *, max_latency: float = 1.0) -> list[int]:
    """The sizes of the batches in which so many jobs that came at once leave one worker."""
    scheduler = Scheduler(make_policy("cork"), Limits(64, max_latency, sizes=SIZES))
    scheduler.rehearse((0, size, CURVE.mean(size), 0.0) for size in SIZES * 5)
    for _ in range(waiting):
        scheduler.submit(Job(0.0, deadline=max_latency))
    left = run_out(scheduler, lambda batch: CURVE.mean(batch.padded_size))
    return [released(step).size for step in left]


def test_a_batch_just_above_a_size_is_cut_to_it() -> None:
    """33 items would pay for 64: 32 leave, and the last one pays for eight."""
    assert batches(33) == [32, 1]


def test_a_batch_just_below_a_size_is_padded() -> None:
    """Fifteen items in one batch are answered sooner than eight and then seven."""
    assert batches(15) == [15]


@pytest.mark.parametrize("tenants", [False, True])
def test_of_those_best_run_together_a_batch_just_above_a_size_is_cut(*, tenants: bool) -> None:
    """Beside 31 long texts 33 short ones wait, 64 in all; the 33 by themselves would run as 64."""
    limits = Limits(64, 0.2, costs=Costs(padded=True), sizes=SIZES)
    fairness = Fairness() if tenants else None
    scheduler = Scheduler(make_policy("cork"), limits, fairness=fairness)
    for size, cost in product(SIZES * 3, (100.0, 1000.0)):
        scheduler.latency.observe(size, 5e-3 + 3e-6 * size * cost, size * cost)
    for number in range(64):
        cost = 1000.0 if number >= 33 else 100.0
        scheduler.submit(TenantJob(0.0, deadline=1.0, cost=cost, tenant="one"))
    batch = released(scheduler.next(0.0))
    assert [job.cost for job in batch.jobs] == [100.0] * 32


def test_no_cut_takes_more_of_a_workers_time_than_it_saves() -> None:
    """Of 56 items 32 leave first; 60 leave together: 28 cost less now than in a batch later."""
    assert batches(56) == [32, 16, 8]
    assert batches(60) == [60]


def test_a_knee_between_two_sizes_is_that_of_the_larger_one() -> None:
    """Seven items run as eight: what is known of seven is known of eight, and calls for no four."""
    limits, peak = Limits(8, sizes=(1, 2, 4, 8)), PeakSize()
    full = []
    for peak.limit in (7, 4, inf):
        full.append(limits.full(peak, 0.0))
    assert full == [8, 4, 8]


def test_an_economic_size_is_rounded_up() -> None:
    """Of 40 items that cost much, 25 would be a good batch: 32 leave, as 16 would cost capacity."""
    scheduler = Scheduler(make_policy("cork"), Limits(64, 1.0, sizes=SIZES))
    for size in SIZES * 20:
        scheduler.latency.observe(size, 1e-3 + 0.3e-3 * size)
    submit(scheduler, 40, now=0.0, patience=1.0)
    assert released(scheduler.next(0.0)).size == 32


def test_a_rest_that_would_be_late_is_not_left_behind() -> None:
    """Where only one batch is in time, all leave in it, whatever is padded."""
    assert batches(9) == [8, 1]
    assert batches(9, max_latency=12e-3) == [9]


def test_the_line_is_that_of_what_the_model_runs() -> None:
    """Batches of nine take as long as those of sixteen, and are known to."""
    scheduler = Scheduler(make_policy("greedy"), Limits(64, sizes=SIZES))
    now = 0.0
    for number in range(60):
        size = (9, 20, 40)[number % 3]
        for _ in range(size):
            scheduler.submit(Job(now))
        batch = scheduler.next(now)
        assert isinstance(batch, Batch)
        assert (batch.size, batch.padded_size) == (size, {9: 16, 20: 32, 40: 64}[size])
        now += 5e-3 + 0.3e-3 * batch.padded_size
        record = scheduler.finish(batch, Outcome.DONE, now).record
        assert record.padded_size == batch.padded_size
    assert scheduler.latency.fixed == pytest.approx(5e-3, rel=0.05)
    assert scheduler.latency.per_item == pytest.approx(0.3e-3, rel=0.05)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_declared_sizes_are_never_worse_than_a_line_over_all_sizes(workers: int) -> None:
    """At 0.9 of what a staircase can do, with three seeds: sooner on average by a tenth or more."""
    curve = Padded(CURVE.mean, SIZES)
    rate = 0.9 * workers * 64 / curve(64)
    means = []
    for sizes in ((), SIZES):
        limits = Limits(64, 0.1, sizes=sizes)
        latencies = [
            job.latency
            for seed in range(3)
            for job in simulate(
                poisson(rate, 3.0, seed=seed),
                Scheduler(make_policy("cork"), limits, workers),
                curve,
            ).jobs
            if job.in_time
        ]
        means.append(sum(latencies) / len(latencies))
    assert means[1] < 0.95 * means[0]


def test_a_batch_that_would_be_late_padded_is_cut() -> None:
    """40 items that can't all be in time at 64 leave as 32 where such batches keep up."""
    scheduler = Scheduler(make_policy("cork"), Limits(64, 20e-3, sizes=SIZES))
    scheduler.rehearse((0, size, 5e-3 + 0.3e-3 * size, 0.0) for size in SIZES * 5)
    for number in range(40):
        scheduler.submit(Job(number * 0.4e-3, deadline=number * 0.4e-3 + 20e-3))
    batch = scheduler.next(39 * 0.4e-3)
    assert isinstance(batch, Batch)
    assert batch.size == 32


@given(
    waiting=st.integers(1, 200),
    sizes=st.sets(st.integers(1, 64), min_size=1).map(sorted).map(tuple),
    cap=st.integers(1, 64),
)
def test_no_batch_runs_more_than_a_limit_allows(
    waiting: int, sizes: tuple[int, ...], cap: int
) -> None:
    """With a lower limit than the largest size, batches are padded to one within the limit."""
    limits = Limits(64, 1.0, sizes=sizes).up_to(cap)
    scheduler = Scheduler(make_policy("cork"), limits)
    for _ in range(waiting):
        scheduler.submit(Job(0.0, deadline=1.0))
    left = 0
    for step in run_out(scheduler, lambda _: 1e-4):
        batch = released(step)
        assert batch.padded_size <= max(cap, sizes[0], batch.size)
        assert batch.padded_size in sizes or batch.padded_size == batch.size
        left += batch.size
    assert left == waiting


def test_sizes_that_are_none_are_refused() -> None:
    """They are whole numbers that grow."""
    for sizes in ((0, 1), (4, 2), (2, 2), (1.5, 2), (True, 2), ("8",)):
        with pytest.raises(ValueError, match="sizes: expected whole numbers of items from 1"):
            Limits(64, sizes=sizes)  # type: ignore[arg-type]  # that is what is refused


@pytest.mark.parametrize("sizes", [(1, 64), (4, 64), (8, 64), (1, 8, 64)])
def test_the_next_size_is_tried_where_the_smaller_ones_do_not_keep_up(
    sizes: tuple[int, ...],
) -> None:
    """It is more than twice as large as what has run, and the slope is unknown: it might be late.

    If it were never tried, that would stay so, and most jobs would be refused for ever.
    """
    limits = Limits(64, 50e-3, sizes=sizes)
    line = Server(5e-3, 0.2e-3)
    server = replace(line, curve=Padded(line.mean, sizes))
    row = Experiment(poisson(1_700.0, 3.0, seed=1), server, limits, warmup=0.5).run("cork")
    assert (row.goodput or 0.0) > 0.98


def test_the_next_size_is_tried_where_all_keys_together_do_not_leave_time_for_the_smaller() -> None:
    """Six keys share a worker, which could run the eights of any one of them."""
    limits = Limits(64, 100e-3, sizes=(8, 64))
    line = Server(5e-3, 0.2e-3)
    server = replace(line, curve=Padded(line.mean, limits.sizes))
    arrivals = poisson(1_700.0, 3.0, seed=1)
    keys = Random(0).choices(range(6), k=len(arrivals))
    row = Experiment(arrivals, server, limits, keys=keys, warmup=0.5).run("cork")
    assert (row.goodput or 0.0) > 0.8
