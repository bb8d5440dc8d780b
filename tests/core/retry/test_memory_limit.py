"""Batches that a worker's memory is too small for get smaller, and are tried larger again."""

from math import inf

import pytest

from adaptive_batching.core import Batch, Costs, Job, Limits, Outcome, Scheduler, make_policy
from adaptive_batching.core.retry.memory_limit import MemoryLimit
from tests.core.steps import released, submit


def test_it_halves_until_there_is_room():
    """What left before the cap fell says nothing."""
    cap = MemoryLimit(64)
    cap.exceeded(64, 32, 0.0)
    cap.exceeded(64, 32, 0.0)
    assert cap.limit == 32
    cap.exceeded(30, 15, 1.0)
    assert cap.limit == 15
    for _ in range(9):
        cap.exceeded(cap.limit, max(1, cap.limit // 2), 2.0)
    assert cap.limit == 1


def test_it_seeks_its_way_up():
    """By a quarter each ten seconds; a trial that fails is taken back, and the next comes later."""
    cap = MemoryLimit(64)
    cap.exceeded(64, 32, 0.0)
    cap.kept(32, 33, 9.9)
    assert cap.limit == 32
    cap.kept(32, 33, 10.0)
    assert cap.limit == 40
    cap.exceeded(40, 20, 11.0)
    assert cap.limit == 32
    cap.kept(32, 33, 30.9)
    assert cap.limit == 32
    now = 31.0
    while cap.limit < 64:
        cap.kept(cap.limit, cap.limit + 1, now)
        now += 20.0
    assert now == 31.0 + 4 * 20.0


def scheduler(max_batch_size=16):
    return Scheduler(make_policy("greedy"), Limits(max_batch_size), idempotent=True)


def leave(scheduler, now) -> Batch:
    return released(scheduler.next(now))


def test_a_key_has_smaller_batches():
    """The members run again in halves, later ones come in as many; other keys stay as they are."""
    decides = scheduler()
    submit(decides, 16, 0.0)
    batch = leave(decides, 0.0)
    submit(decides, 20, 0.5)
    decides.finish(batch, Outcome.OUT_OF_MEMORY, 1.0, batch.jobs)
    sizes = []
    for at in range(5):
        batch = leave(decides, 1.0 + at)
        sizes.append(batch.size)
        decides.finish(batch, Outcome.DONE, 2.0 + at)
    assert sizes == [8, 8, 8, 8, 4]
    jobs = submit(decides, 1, 9.0)
    decides.cancel(jobs[0])
    jobs[0].key = "another"
    jobs[0].size = 16
    decides.submit(jobs[0])
    assert leave(decides, 9.0).size == 16


def test_a_request_larger_than_the_cap_goes_alone():
    """It came in one piece, and is answered so."""
    decides = scheduler()
    submit(decides, 16, 0.0)
    batch = leave(decides, 0.0)
    for job in submit(decides, 1, 0.0):
        decides.cancel(job)
        job.size = 12
        decides.submit(job)
    decides.finish(batch, Outcome.OUT_OF_MEMORY, 1.0)
    assert leave(decides, 1.0).size == 12


def test_the_cap_is_lifted():
    """Once batches of full size have room again, nothing is left of it."""
    decides = scheduler(max_batch_size=4)
    submit(decides, 4, 0.0)
    batch = leave(decides, 0.0)
    decides.finish(batch, Outcome.OUT_OF_MEMORY, 0.0)
    now, sizes = 0.0, []
    while not sizes or sizes[-1] < 4:
        now += 11.0
        submit(decides, 8, now)
        for _ in range(2):
            batch = leave(decides, now)
            sizes.append(batch.size)
            decides.finish(batch, Outcome.DONE, now)
    assert sizes[:2] == [2, 3]
    assert now == 22.0


def test_one_request_that_no_memory_is_large_enough_for():
    """When it has been found, batches are as large as before: it was not their size."""
    decides = scheduler()
    guilty = submit(decides, 16, 0.0)[5]
    now, ran = 0.0, 0
    while decides.items:
        batch = leave(decides, now)
        now, ran = now + 1.0, ran + 1
        ended = Outcome.OUT_OF_MEMORY if guilty in batch.jobs else Outcome.DONE
        decides.finish(batch, ended, now, () if ended is Outcome.DONE else batch.jobs)
    assert ran == 9  # it is searched for by halves
    submit(decides, 16, now)
    assert leave(decides, now).size == 16


def costly(scheduler, count, cost, now):
    for _ in range(count):
        scheduler.submit(Job(now, cost=cost))


def run_in(memory, scheduler, now) -> list[float]:
    """Costs of the batches of all that waits, for a worker that has room for so much."""
    costs = []
    while scheduler.items:
        batch = leave(scheduler, now)
        costs.append(batch.cost)
        fits = batch.cost <= memory
        ended = Outcome.DONE if fits else Outcome.OUT_OF_MEMORY
        scheduler.finish(batch, ended, now, () if fits else batch.jobs)
    return costs


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("unit", [1e-6, 0.3, 1.0, 7e5])
def test_where_items_differ_what_a_batch_costs_is_limited(*, padded, unit):
    """For a memory of 10 long texts: 10 long ones at a time, and as many short ones as before."""
    decides = Scheduler(
        make_policy("greedy"), Limits(64, costs=Costs(padded=padded)), idempotent=True
    )
    memory = 1000 * unit
    costly(decides, 64, 100 * unit, 0.0)
    assert run_in(memory, decides, 0.0)[0] == pytest.approx(6400 * unit)
    costly(decides, 64, 100 * unit, 1.0)
    assert max(run_in(memory, decides, 1.0)) <= memory
    costly(decides, 64, 10 * unit, 2.0)
    assert run_in(memory, decides, 2.0) == pytest.approx([640 * unit])


def test_a_limit_of_what_batches_cost_seeks_its_way_up():
    """Batches that nearly use it up let it grow by a quarter, to what was asked for at most."""
    decides = Scheduler(
        make_policy("greedy"), Limits(64, costs=Costs(max_batch_cost=0.5)), idempotent=True
    )
    item = 1 / 128
    costly(decides, 64, item, 0.0)
    assert run_in(0.25, decides, 0.0) == [0.5, 0.25, 0.25]
    largest = []
    for turn in range(1, 6):
        costly(decides, 64, item, 20.0 * turn)
        largest.append(max(run_in(1.0, decides, 20.0 * turn)))
    assert largest == [32 * item, 40 * item, 50 * item, 62 * item, 64 * item]
    assert decides.queues[None].cap is None


@pytest.mark.parametrize("costs", [None, Costs(max_batch_cost=3200.0), Costs(padded=True)])
@pytest.mark.parametrize("sizes", [(1, 2, 4, 8, 16, 32), (6, 12, 24, 32), (30, 32), (32,)])
def test_the_limit_seeks_its_way_up_by_the_sizes_that_the_model_runs(costs, sizes):
    """Memory ran out once, and then there is room again: batches of 32 come back."""
    limits = Limits(32, costs=costs, sizes=sizes)
    decides = Scheduler(make_policy("greedy"), limits, idempotent=True)
    costly(decides, 32, 100.0, 0.0)
    batch = leave(decides, 0.0)
    decides.finish(batch, Outcome.OUT_OF_MEMORY, 0.0)
    for turn in range(1, 9):
        costly(decides, 32, 100.0, 11.0 * turn)
        run_in(inf, decides, 11.0 * turn)
    costly(decides, 32, 100.0, 100.0)
    assert leave(decides, 100.0).size == 32


def test_a_limit_counts_the_items_that_are_run():
    """Nine items ran as sixteen, for which there is no room: eight are tried."""
    decides = Scheduler(make_policy("greedy"), Limits(16, sizes=(8, 16)), idempotent=True)
    submit(decides, 9, 0.0)
    batch = leave(decides, 0.0)
    decides.finish(batch, Outcome.OUT_OF_MEMORY, 0.0)
    submit(decides, 16, 1.0)
    batch = leave(decides, 1.0)
    assert (batch.size, batch.padded_size) == (8, 8)


def test_parts_of_a_batch_cost_what_the_memory_turned_out_to_hold():
    """Four items ran as four; two would be filled up to four again, so each runs alone."""
    limits = Limits(4, costs=Costs(max_batch_cost=100.0), sizes=(1, 4))
    decides = Scheduler(make_policy("greedy"), limits, idempotent=True)
    costly(decides, 4, 25.0, 0.0)
    assert run_in(50.0, decides, 0.0) == [100.0, 25.0, 25.0, 25.0, 25.0]


def test_parts_that_wait_are_cut_to_what_was_learned_meanwhile():
    """Of two batches that ran side by side the second has no larger parts than the first's had."""
    decides = Scheduler(make_policy("greedy"), Limits(64, costs=Costs()), 2, idempotent=True)
    costly(decides, 128, 1.0, 0.0)
    running = [leave(decides, 0.0), leave(decides, 0.0)]
    for batch in running:
        decides.finish(batch, Outcome.OUT_OF_MEMORY, 0.1, batch.jobs)
    for _ in range(2):  # the halves of the first
        batch = leave(decides, 0.2)
        assert batch.cost == 32.0
        decides.finish(batch, Outcome.OUT_OF_MEMORY, 0.2, batch.jobs)
    assert max(run_in(16.0, decides, 0.3)) == 16.0


def test_items_that_cost_nothing_leave_the_limit_alone():
    """Their batch ran out of memory, but a smaller cost there is not."""
    decides = Scheduler(make_policy("greedy"), Limits(64, costs=Costs()), idempotent=True)
    costly(decides, 4, 0.0, 0.0)
    decides.finish(leave(decides, 0.0), Outcome.OUT_OF_MEMORY, 0.0)
    costly(decides, 4, 5.0, 1.0)
    assert leave(decides, 1.0).cost == 20.0
