"""Where some items make the batches fail that they are in, batches are smaller."""

from itertools import count
from random import Random

import pytest

from adaptive_batching.core import Batch, Job, Limits, Outcome, Reason, Scheduler, make_policy
from adaptive_batching.core.group_size import GroupSize
from adaptive_batching.core.latency import LinearLatency
from tests.core.steps import released, submit


def line(fixed, per_item):
    known = LinearLatency()
    known.fixed, known.per_item = fixed, per_item
    return known


FLAT, STEEP = line(10e-3, 0.1e-3), line(5e-3, 1e-3)


def ran(size, reason=Reason.FULL):
    return Batch([Job(0.0) for _ in range(size)], size, None, reason, 0.0, 0.0, 0, 0)


def learned(share, durations=FLAT, batches=400):
    """What is learned from batches of the size that seems best, of which a share of items is bad.

    The search in those that fail gives somebody an answer.
    """
    random = Random(1)
    group = GroupSize(64, durations)
    for _ in range(batches):
        size = group.items
        if any(random.random() < share for _ in range(size)):
            group.ended(ran(size), Outcome.FAILED)
            group.ended(ran(1, Reason.BISECT), Outcome.DONE)
        else:
            group.ended(ran(size), Outcome.DONE)
    return group


@pytest.mark.parametrize(
    ("share", "durations", "best"),
    [
        (0.0001, FLAT, [64]),
        (0.05, FLAT, [8, 16]),
        (0.05, STEEP, [4, 8]),
        (0.2, FLAT, [2, 4]),
        (0.5, FLAT, [1, 2]),
    ],
)
def test_the_more_are_bad_the_smaller_the_batches(share, durations, best):
    """It is the size for which the batches and the searches together take least."""
    assert learned(share, durations).items in best


@pytest.mark.parametrize("share", [0.005, 0.02, 0.05, 0.1])
def test_the_share_of_bad_items_is_learned(share):
    """Though nothing is known but whether a batch had any."""
    assert learned(share).rate == pytest.approx(share, rel=0.5)


def test_one_bad_item_changes_nothing():
    """Nor is it remembered for long."""
    group = GroupSize(64, FLAT)
    group.ended(ran(64), Outcome.FAILED)
    assert group.items == 64
    while group.needed:
        group.ended(ran(64), Outcome.DONE)
    assert group.items == 64


def test_parts_of_a_batch_that_failed_say_nothing():
    """There is more guilt in them than elsewhere, and none in the other half."""
    group = learned(0.05)
    before = group.rate
    for outcome in (Outcome.FAILED, Outcome.DONE):
        group.ended(ran(8, Reason.BISECT), outcome)
    assert group.rate == before


def test_a_server_that_answers_nobody_gets_large_batches():
    """It is not for the items; when it is back, there is much to do."""
    group = learned(0.05)
    for _ in range(16):
        group.ended(ran(group.items), Outcome.FAILED)
    assert group.items == 64
    group.ended(ran(64), Outcome.DONE)
    assert not group.needed


@pytest.mark.parametrize("outcome", [Outcome.OVERLOADED, Outcome.LOST, Outcome.OUT_OF_MEMORY])
def test_other_ends_say_nothing(outcome):
    """No item is to blame for them."""
    group = GroupSize(64, FLAT)
    group.ended(ran(64), outcome)
    assert not group.needed


def answered(most, seconds=20.0):
    """How many get an answer where every 20th item is bad, and as many wait as a batch may have."""
    scheduler = Scheduler(make_policy("greedy"), Limits(most), idempotent=True)
    numbers = count()
    bad = set()
    now, good = 0.0, 0
    while now < seconds:
        for job in submit(scheduler, most - scheduler.items, now):
            if next(numbers) % 20 == 0:
                bad.add(job)
        batch = released(scheduler.next(now))
        now += STEEP.predict(batch.size)
        failed = not bad.isdisjoint(batch.jobs)
        scheduler.finish(batch, Outcome.FAILED if failed else Outcome.DONE, now)
        if failed:
            scheduler.rerun(batch, batch.jobs, Outcome.FAILED, now)
        else:
            good += batch.size
    return good


def test_those_who_are_not_to_blame_get_their_answers():
    """About as many as if someone had chosen the best size by hand."""
    assert answered(64) > 0.9 * max(answered(size) for size in (2, 4, 8, 16))


def test_where_nobody_runs_again_batches_stay_large():
    """There is no search that a smaller batch would shorten."""
    scheduler = Scheduler(make_policy("greedy"), Limits(64))
    for at in range(10):
        submit(scheduler, 64, at)
        batch = released(scheduler.next(at))
        assert batch.size == 64
        scheduler.finish(batch, Outcome.FAILED if at % 2 else Outcome.DONE, at + 0.5)
