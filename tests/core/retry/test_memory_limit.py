"""Batches that a worker's memory is too small for get smaller, and are tried larger again."""

from adaptive_batching.core import Batch, Limits, Outcome, Scheduler, make_policy
from adaptive_batching.core.retry.memory_limit import MemoryLimit
from tests.core.steps import released, submit


def test_it_halves_until_there_is_room():
    """What left before the cap fell says nothing."""
    cap = MemoryLimit(64)
    cap.exceeded(64, 0.0)
    cap.exceeded(64, 0.0)
    assert cap.items == 32
    cap.exceeded(30, 1.0)
    assert cap.items == 15
    for _ in range(9):
        cap.exceeded(cap.items, 2.0)
    assert cap.items == 1


def test_it_seeks_its_way_up():
    """By a quarter each ten seconds; a trial that fails is taken back, and the next comes later."""
    cap = MemoryLimit(64)
    cap.exceeded(64, 0.0)
    cap.kept(32, 9.9)
    assert cap.items == 32
    cap.kept(32, 10.0)
    assert cap.items == 40
    cap.exceeded(40, 11.0)
    assert cap.items == 32
    cap.kept(32, 30.9)
    assert cap.items == 32
    now = 31.0
    while cap.items < 64:
        cap.kept(cap.items, now)
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
