"""Workers that make way for fresh ones: in a rolling restart, or because they are worn out."""

import asyncio
import os
import signal

import pytest

from adaptive_batching.core import Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import Draining, WorkerLost, WorkerStartError
from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.interface import Health, Restartable
from tests.workers import handlers
from tests.workers.conditions import until
from tests.workers.handlers import dead

BOTH = frozenset({0, 1})


async def keep_busy(pool, worker, ended):
    """Run one batch after the other, and say in which process each was."""
    while True:
        ended.append((await pool.run([0], worker))[0][0])


async def test_a_rolling_restart_fails_no_batch(started):
    """Both workers are renewed while they work, and the old ones are gone."""
    pool = await started(handlers.where, count=2)
    before = pool.pids
    ended = [[], []]
    busy = [asyncio.create_task(keep_busy(pool, worker, ended[worker])) for worker in (0, 1)]
    await pool.restart()
    for worker, pids in enumerate(ended):
        count = len(pids)
        await until(lambda pids=pids, count=count: len(pids) >= count + 2)
        assert list(dict.fromkeys(pids)) == [before[worker], pool.pids[worker]]
    for task in busy:
        assert not task.done()
        task.cancel()
    assert all(map(dead, before))
    assert isinstance(pool, Restartable)


async def test_the_old_worker_ends_its_batch(started, tmp_path):
    """A batch that takes long is answered by the one that had it; the fresh one works meanwhile."""
    pool = await started(handlers.Waits, count=1)
    (old,) = pool.pids
    gate = tmp_path / "gate"
    held = asyncio.create_task(pool.run([str(gate)], 0))
    restart = asyncio.create_task(pool.restart())
    await until(lambda: pool.health.renewed == 1)
    assert await pool.run([""], 0) == pool.pids != [old]
    assert not held.done()
    assert not restart.done()
    gate.touch()
    assert await held == [old]
    await restart
    assert dead(old)


async def test_a_successor_that_can_not_start_stops_the_restart(started, fragile):
    """Who works goes on working, and the error says how far it went and why no further."""
    pool = await started(fragile.handler, count=2)
    before = pool.pids
    fragile.breaks()
    with pytest.raises(WorkerStartError, match=r"after 0 of 2 workers, worker 0 .* stays: .*brok"):
        await pool.restart()
    assert pool.pids == before
    assert await pool.run([1], 0) == [1]
    assert pool.health == Health(BOTH, 2)
    fragile.recovers()
    await pool.restart()
    assert set(pool.pids).isdisjoint(before)
    assert pool.health == Health(BOTH, 2, renewed=2)


async def test_a_worker_that_dies_while_its_successor_starts(started):
    """The successor takes the place over, and nobody else is started for it."""
    pool = await started(handlers.Obeys)
    (old,) = pool.pids
    held = asyncio.create_task(pool.run(["hang"], 0))
    restart = asyncio.create_task(pool.restart())
    await asyncio.sleep(0)
    os.kill(old, signal.SIGKILL)
    with pytest.raises(WorkerLost):
        await held
    await restart
    assert await pool.run(["echo"], 0) == ["echo"]
    assert pool.health == Health(frozenset({0}), 1, renewed=1)


async def test_a_successor_that_dies_is_replaced(started):
    """It is looked after like any worker."""
    pool = await started(handlers.double)
    await pool.restart()
    (fresh,) = pool.pids
    os.kill(fresh, signal.SIGKILL)
    await until(lambda: pool.health == Health(frozenset({0}), 1, restarts=1, renewed=1))
    assert await pool.run([1], 0) == [2]


async def test_closing_in_the_middle_of_a_restart(started):
    """Nothing is left of those who come and of those who leave, and the caller is told."""
    pool = await started(handlers.Obeys)
    before = pool.pids
    held = asyncio.create_task(pool.run(["hang"], 0))
    restart = asyncio.create_task(pool.restart())
    await until(lambda: pool.health.renewed == 1)
    pids = before + pool.pids
    await pool.aclose()
    with pytest.raises(Draining, match="stopped before they were restarted"):
        await restart
    with pytest.raises(WorkerLost):
        await held
    assert all(map(dead, pids))


async def test_closing_while_a_successor_loads(started, fragile):
    """It is not waited for."""
    pool = await started(fragile.handler)
    fragile.hangs()
    restart = asyncio.create_task(pool.restart())
    await until(lambda: fragile.loading)
    await pool.aclose()
    with pytest.raises(Draining):
        await restart
    assert dead(fragile.loading)


async def test_closing_while_the_predecessor_leaves(started):
    """It has been told to go, and is waited for."""
    pool = await started(handlers.double)
    (old,) = pool.pids
    restart = asyncio.create_task(pool.restart())
    await until(lambda: pool.health.renewed == 1)
    await pool.aclose()
    assert dead(old)
    with pytest.raises(Draining):
        await restart


async def test_nothing_begins_after_the_end(started):
    """Who restarts or scales workers that have been stopped is told; none is started."""
    pool = await started(handlers.double)
    await pool.aclose()
    with pytest.raises(Draining, match="stopped before they were restarted"):
        await pool.restart()
    with pytest.raises(Draining, match="stopped before they were scaled"):
        await pool.scale(2)
    assert not pool.pids


async def test_a_restart_helps_where_none_is_alive(fragile, caplog):
    """What kept them from starting has been mended: nobody waits for the next attempt."""
    workers = make_workers(fragile.handler, Processes(1))
    async with Dispatcher[int, int](workers, Limits(4)) as dispatcher:
        fragile.breaks()
        (pid,) = workers.pids
        os.kill(pid, signal.SIGKILL)
        await until(lambda: workers.health.failure)
        with pytest.raises(WorkerStartError, match="broken meanwhile"):
            await dispatcher.restart_workers()
        fragile.recovers()
        await dispatcher.restart_workers()
        assert await dispatcher.submit(1) == 1
