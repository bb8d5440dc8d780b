"""Workers that make way for fresh ones when they are worn out."""

import logging
from types import SimpleNamespace

import psutil
import pytest

from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.interface import Health
from adaptive_batching.workers.pool.backoff import Relief
from adaptive_batching.workers.pool.recycling import Lifetimes
from tests.workers import handlers
from tests.workers.conditions import until
from tests.workers.handlers import dead

MIB = 2**20


class Worker(SimpleNamespace):
    """As much of a worker as its lifetime depends on."""

    __hash__ = object.__hash__


def batches_until_over(lifetimes, worker):
    count = 1
    while not lifetimes.over(worker):
        count += 1
    return count


def test_limits_of_batches_scatter():
    """Workers that started together are due within the last tenth, at different times."""
    luck = iter([0.0, 0.5, 0.99])
    lifetimes = Lifetimes(1000, None, clock=lambda: 0.0, random=lambda: next(luck))
    counts = [batches_until_over(lifetimes, Worker(pid=None)) for _ in range(3)]
    assert counts == [1000, 950, 901]


def test_memory_is_looked_at_once_a_second():
    """It is the process's own, and asking costs time."""
    now = 0.0
    held = psutil.Process().memory_info().rss
    ballast = []
    lifetimes = Lifetimes(None, held + 100 * MIB, clock=lambda: now, random=lambda: 0.0)
    worker = Worker(pid=psutil.Process().pid)
    assert not lifetimes.over(worker)
    ballast.append(b"x" * 200 * MIB)  # more than what other tests have left may give back by then
    now = 0.9
    assert not lifetimes.over(worker)
    now = 1.0
    assert lifetimes.over(worker)


def test_a_limit_that_no_worker_could_keep(caplog):
    """A fresh one would hold as much: it is told once, and nobody is replaced in vain."""
    now = 0.0
    lifetimes = Lifetimes(None, MIB, clock=lambda: now, random=lambda: 0.0)
    worker = Worker(pid=psutil.Process().pid)
    with caplog.at_level(logging.WARNING):
        for now in range(5):  # noqa: B007  the clock is it
            assert not lifetimes.over(worker)
    (record,) = caplog.records
    assert "after its first batch; max_rss=1048576 is not heeded" in record.getMessage()


def test_the_memory_of_a_process_that_is_gone():
    """It is nobody's business."""
    lifetimes = Lifetimes(None, MIB, clock=lambda: 0.0, random=lambda: 0.0)
    assert not lifetimes.over(Worker(pid=2**22 + 1))


def test_memory_that_runs_out_again_and_again():
    """The first time a fresh worker comes soon; later ones do not take all time for loading."""
    now = 0.0
    relief = Relief(lambda: now, random=lambda: 1.0)
    pauses = []
    for _ in range(10):
        pauses.append(relief.pause())
        now += pauses[-1]
    assert pauses[:3] == [0.1, 0.2, 0.4]
    assert pauses[-1] == 10.0
    now += 60.0
    assert relief.pause() == 0.1


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_batches": 0}, "max_batches: expected at least 1, got 0"),
        ({"max_rss": 2048}, "max_rss: expected at least 16777216 bytes, got 2048"),
        ({"max_rss": 2e9}, "max_rss: expected at least 16777216 bytes, got 2000000000.0"),
    ],
)
def test_limits_that_make_no_sense(limits, message):
    """What was expected and what was given."""
    with pytest.raises(ValueError, match=message):
        Processes(**limits)


async def test_after_so_many_batches(started):
    """Batches follow each other without a pause, all are answered, by three processes."""
    pool = await started(handlers.where, max_batches=50)
    pids = []
    while len(set(pids)) < 3:
        pids.append((await pool.run([0], 0))[0][0])
    changes = list(dict.fromkeys(pids))
    assert pids.count(changes[0]) >= 45
    await until(lambda: pool.health.renewed >= 2 and all(map(dead, changes[:2])))


async def test_a_worker_that_leaks(started):
    """It makes way once it holds more memory than it may."""
    pool = await started(handlers.Leaks, max_rss=300 * MIB)
    (leaking,) = pool.pids
    while (await pool.run([10 * MIB], 0))[0] == leaking:
        pass
    assert pool.health == Health(frozenset({0}), 1, renewed=1)


async def test_a_worn_worker_without_a_successor(started, fragile, caplog):
    """It goes on, and steps down when somebody can take over."""
    pool = await started(fragile.handler, max_batches=1)
    before = pool.pids
    fragile.breaks()
    with caplog.at_level(logging.WARNING):
        assert await pool.run([1], 0) == [1]
        await until(lambda: caplog.records)
    assert "is worn out, but stays: " in caplog.text
    assert "broken meanwhile" in caplog.text
    assert await pool.run([2], 0) == [2]
    assert pool.pids == before
    fragile.recovers()
    await until(lambda: pool.pids and pool.pids != before)
