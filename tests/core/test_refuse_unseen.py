"""Who would be refused whatever he brings need not be looked at."""

import pytest

from adaptive_batching.core import Batch, Job, Limits, Outcome, Scheduler, make_policy
from adaptive_batching.errors import Overloaded

PATIENCE = 0.1


def busy(taken: float = 0.04) -> Scheduler:
    """One worker, whose batches are known to take so long, and has just begun another one."""
    scheduler = Scheduler(make_policy("cork"), Limits(4, PATIENCE))
    now = 0.0
    for size in (1, 2, 4, 4, 4):
        for _ in range(size):
            scheduler.submit(Job(now, 1, now + PATIENCE))
        batch = scheduler.next(now)
        assert isinstance(batch, Batch)
        now += taken
        scheduler.finish(batch, Outcome.DONE, now)
    scheduler.submit(Job(now, 1, now + PATIENCE))
    assert isinstance(scheduler.next(now), Batch)
    return scheduler


def test_the_answer_is_that_of_the_door() -> None:
    """At every instant of an overload: who would be let in is looked at, and nobody else."""
    refused = 0
    scheduler = busy()
    begin = 0.2
    for number in range(60):
        now = begin + number * 0.5e-3
        unseen = scheduler.refuse_unseen(now, PATIENCE)
        if unseen is None:
            scheduler.submit(Job(now, 1, now + PATIENCE))
            continue
        refused += 1
        with pytest.raises(Overloaded) as refusal:
            scheduler.submit(Job(now, 1, now + PATIENCE))
        assert unseen == pytest.approx(refusal.value.retry_after, rel=0.1)
    assert 40 < refused < 60


def test_a_worker_is_idle() -> None:
    """Then everybody is looked at, however long batches take."""
    scheduler = Scheduler(make_policy("cork"), Limits(4, PATIENCE))
    scheduler.submit(Job(0.0, 1, PATIENCE))
    assert scheduler.refuse_unseen(0.0, 1e-6) is None


def test_another_key_may_have_its_batch() -> None:
    """Where there is more than one, nobody knows before he has looked."""
    scheduler = busy()
    assert scheduler.refuse_unseen(0.2, 1e-3) is not None
    scheduler.submit(Job(0.2, key="another"))
    assert scheduler.refuse_unseen(0.2, 1e-3) is None


def test_a_policy_that_lets_everybody_in() -> None:
    """There is no door to be refused at."""
    scheduler = Scheduler(make_policy("greedy"), Limits(4, PATIENCE))
    scheduler.submit(Job(0.0, 1, PATIENCE))
    assert isinstance(scheduler.next(0.0), Batch)
    assert scheduler.refuse_unseen(0.0, 1e-6) is None
