"""A worker that is much slower than its peers: used less, and told about."""

import asyncio
import logging

import pytest

from adaptive_batching.core import Limits
from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.worker import Worker, slowness
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.dispatcher.slow_workers import SlowWorkers
from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.placement import Tasks
from tests.workers import handlers


async def test_it_is_used_less_and_reported(caplog, monkeypatch):
    """Of two processes one takes four times as long; the log, the stats and its share show it."""
    monkeypatch.setattr("adaptive_batching.dispatcher.slow_workers._LASTING", 0.5)
    workers = make_workers(handlers.SecondIsSlow, Processes(2))
    async with Dispatcher(workers, Limits(1)) as dispatcher:

        async def user():
            for _ in range(120):
                await dispatcher.submit(0)

        with caplog.at_level(logging.WARNING, "adaptive_batching"):
            await asyncio.gather(user(), user())
        fast, slow = sorted(dispatcher.stats().per_worker, key=lambda each: each.slowness)
    assert fast.slowness == 1.0
    assert slow.slowness > 2.0
    assert fast.batches > 2 * slow.batches
    # A busy machine may slow the fast one for a while too: how often is told by the next story.
    line = next(each for each in caplog.messages if "times as long as most" in each)
    assert "of <WorkerPool alive=2/2 restarts=0> takes" in line


@pytest.fixture
def workers():
    line = LinearLatency()
    line.observe(10, 20e-3)
    two = [Worker(index, line) for index in range(2)]
    for worker in two:
        worker.alive = True
    return two


def test_it_is_reported_once_it_has_lasted(workers, caplog):
    """A slow moment is no news. Its end is, well below what made it slow; then it may recur."""
    slow_workers = SlowWorkers(make_workers(handlers.double_async, Tasks(2)), full=10)
    story = [(0, 1.6), (9, 1.0), (10, 1.6), (19, 3.0), (20, 1.6), (31, 1.4), (45, 1.6), (50, 1.2)]
    with caplog.at_level(logging.INFO, "adaptive_batching"):
        for now, factor in [*story, (60, 2.0), (70, 2.0)]:
            workers[1].latency.factor = factor
            slow_workers.look(workers, now)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]
    slow, recovered, _ = caplog.messages
    assert slow.startswith("worker 1 of ")
    assert "takes 1.6 times as long as most (32 ms for a full batch), so it gets less" in slow
    assert recovered.endswith("is as fast as most again")


def test_another_worker_in_the_place_of_a_slow_one(workers, caplog):
    """It did not recover, and is reported by its own name when it is slow as well."""
    slow_workers = SlowWorkers(make_workers(handlers.double_async, Tasks(2)), full=10)
    with caplog.at_level(logging.INFO, "adaptive_batching"):
        story = [("old", 2.0), ("old", 2.0), ("new", 1.0), ("new", 3.0), ("new", 3.0)]
        for step, (name, factor) in enumerate(story):
            workers[1].become(name)
            workers[1].latency.factor = factor
            slow_workers.look(workers, 10.0 * step)
    old, new = caplog.messages
    assert old.startswith("worker 1 ('old') of ")
    assert new.startswith("worker 1 ('new') of ")


def test_a_worker_that_is_alone(workers, caplog):
    """It is no slower than most: there are no others."""
    slow_workers = SlowWorkers(make_workers(handlers.double_async, Tasks(2)), full=10)
    workers[1].latency.factor = 3.0
    slow_workers.look(workers, 0.0)
    workers[0].alive = False
    slow_workers.look(workers, 20.0)
    assert not slow_workers.since
    assert not caplog.messages


def test_a_worker_beside_a_dead_one_that_was_faster(workers):
    """It is compared with those that are alive; decisions go by what the dead one taught."""
    workers[1].latency.factor = 3.0
    assert slowness(workers) == [1.0, 3.0]
    workers[0].alive = False
    assert slowness(workers) == [1 / 3, 1.0]
    workers[1].alive = False
    assert slowness(workers) == [1.0, 3.0]
