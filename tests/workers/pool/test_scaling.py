"""More workers, or fewer, while they work."""

import asyncio

import pytest

from adaptive_batching import Threads, batched
from adaptive_batching.errors import Draining, UsageError, WorkerStartError
from adaptive_batching.workers.interface import Health, Scalable
from tests.workers import handlers
from tests.workers.conditions import until
from tests.workers.decorated import TWO_CORES
from tests.workers.handlers import dead


def living(count):
    return frozenset(range(count))


async def test_more_workers(started):
    """They are ready when the call returns, beside those who were there."""
    pool = await started(handlers.where)
    (first,) = pool.pids
    await pool.scale(3)
    assert pool.health == Health(living(3), 3)
    pids = [(await pool.run([0], worker))[0][0] for worker in range(3)]
    assert pids == pool.pids
    assert pids[0] == first
    assert isinstance(pool, Scalable)


async def test_a_new_worker_is_kept_like_the_others(started):
    """If it dies it is replaced."""
    pool = await started(handlers.Obeys)
    await pool.scale(2)
    batch = asyncio.create_task(pool.run(["exit_hard"], 1))
    await asyncio.wait([batch])
    await until(lambda: pool.health == Health(living(2), 2, restarts=1))
    assert await pool.run(["echo"], 1) == ["echo"]
    batch.exception()


async def test_fewer_workers(started, tmp_path):
    """Who leaves is given nothing more, ends its batch, and is gone then."""
    pool = await started(handlers.Waits, count=3)
    _, _, last = pids = pool.pids
    gate = tmp_path / "gate"
    held = asyncio.create_task(pool.run([str(gate)], 2))
    scaling = asyncio.create_task(pool.scale(1))
    await until(lambda: pool.health == Health(living(1), 1))
    assert not scaling.done()
    gate.touch()
    assert await held == [last]
    await scaling
    assert pool.pids == pids[:1]
    assert all(map(dead, pids[1:]))
    await pool.scale(2)
    assert await pool.run([""], 1) == pool.pids[1:]


async def test_a_new_worker_that_can_not_start(started, fragile):
    """There are as many as before, and they go on."""
    pool = await started(fragile.handler)
    fragile.breaks()
    with pytest.raises(WorkerStartError, match="broken meanwhile"):
        await pool.scale(2)
    assert pool.health == Health(living(1), 1)
    assert await pool.run([1], 0) == [1]


async def test_closing_while_a_new_worker_loads(started, fragile):
    """It is not waited for, the caller is told, and nothing of it is left."""
    pool = await started(fragile.handler)
    fragile.hangs()
    scaling = asyncio.create_task(pool.scale(2))
    await until(lambda: fragile.loading)
    await pool.aclose()
    with pytest.raises(Draining, match="stopped before they were scaled"):
        await scaling
    assert dead(fragile.loading)


async def test_no_more_than_cores_were_named_for(started):
    """Which cores the others should have, nobody has said."""
    pool = await started(handlers.double, cpus=TWO_CORES[:1])
    with pytest.raises(
        ValueError, match="at most 1 workers, each has its cpus or its device, got 2"
    ):
        await pool.scale(2)


async def test_no_call_fails_while_a_function_is_scaled():
    """Calls come all the time, from one worker to three and back."""
    double = batched(max_batch_size=4, workers=1)(handlers.Counted)
    async with double:
        answers = asyncio.create_task(double.map(range(3000)))
        await double.scale_workers(3)
        assert double.stats().workers == 3
        await double.scale_workers(1)
        assert double.stats().workers == 1
        assert await answers == list(range(3000))


async def test_what_can_not_be_scaled():
    """Threads can't be taken away; no workers at all would answer nothing."""
    threads = batched(workers=Threads(1))(handlers.identity)
    with pytest.raises(UsageError, match="expected worker processes or actors to scale, got Thr"):
        await threads.scale_workers(2)
    for count in (0, 2.5, "3"):
        with pytest.raises(
            ValueError, match=f"workers: expected a count of at least 1, got {count!r}"
        ):
            await batched()(handlers.Counted).scale_workers(count)
