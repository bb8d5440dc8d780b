"""Ray actors: where they run, how they die and how they are replaced."""

import asyncio
import os
import signal
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from adaptive_batching import DeadlineExceeded, RayWorkers, batched, worker_index
from adaptive_batching.errors import WorkerLost, WorkerStartError, WorkerTimeout
from adaptive_batching.workers.interface import Health
from tests.ray.conftest import MEMORY, ROOT
from tests.workers import handlers
from tests.workers.conditions import until
from tests.workers.pool.test_pool import BOTH, Changes


async def test_a_decorated_class_runs_in_actors(cluster):
    """`RayWorkers` is all that it takes, for a class of a module or one made on the spot."""

    @batched(max_batch_size=8, workers=RayWorkers(2, num_cpus=0.5))
    class Scale:
        def __call__(self, items: list[int]) -> list[int]:
            return [3 * item for item in items]

    async with Scale:
        assert await Scale.map(range(40)) == list(range(0, 120, 3))
        assert Scale.stats().workers == 2


async def test_actors_know_their_index_are_built_with_arguments_and_take_arrays(cluster):
    """As worker processes do."""

    class Scale:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        def __call__(self, x: NDArray[np.int64]) -> dict[str, Any]:
            return {"scaled": x * self.factor, "worker": [worker_index()] * len(x)}

    placement = RayWorkers(2, num_cpus=0.5)
    scale = batched(max_batch_size=1, workers=placement, init_args={"factor": 3})(Scale)
    async with scale:
        answers = await scale.map([np.array([number]) for number in range(20)])
    assert [answer["scaled"].tolist() for answer in answers] == [[3 * n] for n in range(20)]
    assert {answer["worker"] for answer in answers} == {0, 1}


async def test_actors_are_spread_over_the_nodes(started, cluster):
    """Each of two actors that want a whole core gets a node of its own."""
    pool = await started(handlers.NodeOf, count=2, num_cpus=1)
    nodes = {(await pool.run([0], worker))[0] for worker in (0, 1)}
    assert len(nodes) == 2


async def test_an_actor_killed_in_the_middle_of_a_batch(started):
    """Its batch fails with what happened, the other actor is untouched, a new one comes."""
    changes = Changes()
    pool = await started(handlers.Obeys, count=2, on_change=changes)
    (victim,) = await pool.run(["process"], 0)
    batch = asyncio.create_task(pool.run(["hang", 1, 2], 0))
    await asyncio.sleep(0)
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(
        WorkerLost, match=r"worker 0 \(Actor\(.*\)\) died while it held a batch of 3"
    ):
        await batch
    assert pool.health == Health(frozenset({1}), 2)
    assert await pool.run(["echo"], 1) == ["echo"]
    await changes.until(lambda: pool.health == Health(BOTH, 2, restarts=1))
    assert await pool.run(["process"], 0) != [victim]


async def test_an_actor_killed_while_idle(started):
    """It is noticed without a batch, and replaced before anyone is hurt."""
    changes = Changes()
    pool = await started(handlers.Obeys, on_change=changes)
    (victim,) = await pool.run(["process"], 0)
    os.kill(victim, signal.SIGKILL)
    await changes.until(lambda: pool.health.alive == 0)
    await changes.until(lambda: pool.health == Health(frozenset({0}), 1, restarts=1))
    assert await pool.run(["echo"], 0) == ["echo"]


async def test_a_hung_actor_is_killed_at_the_batch_timeout(started):
    """An actor that computes for ever is no different from a process that does."""
    changes = Changes()
    pool = await started(handlers.Obeys, timeout=1.0, on_change=changes)
    with pytest.raises(WorkerTimeout, match=r"did not answer a batch of 1 in 1 s; it was kil"):
        await pool.run(["hang"], 0)
    assert pool.health.alive == 0
    await changes.until(lambda: pool.health.alive == 1)
    assert await pool.run(["echo"], 0) == ["echo"]


async def test_deadlines_do_not_wait_for_ray(cluster):
    """A request whose actor is frozen is told at its own deadline."""
    predict = batched(max_latency=1.5, workers=RayWorkers(num_cpus=0, timeout=5.0))(handlers.Obeys)
    async with predict:
        victim = await predict("process")
        os.kill(victim, signal.SIGSTOP)
        with pytest.raises(DeadlineExceeded):
            await predict("echo")


async def test_a_node_that_is_lost(started, cluster):
    """Its actor starts again on another node."""
    only_there = {"num_cpus": 0, "resources": {"spot": 1}}
    node = cluster.add_node(**only_there, object_store_memory=MEMORY)
    changes = Changes()
    pool = await started(handlers.NodeOf, resources={"spot": 1}, on_change=changes)
    (first,) = await pool.run([0], 0)
    cluster.remove_node(node, allow_graceful=False)
    await changes.until(lambda: pool.health.alive == 0)
    node = cluster.add_node(**only_there, object_store_memory=MEMORY)
    await changes.until(lambda: pool.health.alive == 1)
    assert await pool.run([0], 0) != [first]
    await pool.aclose()
    cluster.remove_node(node)
    cluster.wait_for_nodes()  # or Ray would place the next test's actors there


async def test_a_rolling_restart(started):
    """Each actor is relieved by a fresh one, and nothing fails meanwhile."""
    pool = await started(handlers.Obeys, count=2)
    before = [(await pool.run(["process"], worker))[0] for worker in (0, 1)]
    await pool.restart()
    after = [(await pool.run(["process"], worker))[0] for worker in (0, 1)]
    assert not {*before} & {*after}
    assert pool.health == Health(BOTH, 2, renewed=2)


async def test_from_one_actor_to_four(cluster):
    """More actors while calls come, and fewer again; none fails."""
    model = batched(max_batch_size=4, workers=RayWorkers(num_cpus=0))(handlers.Counted)
    async with model:
        answers = asyncio.create_task(model.map(range(2000)))
        await model.scale_workers(4)
        assert model.stats().workers == 4
        await model.scale_workers(2)
        assert await answers == list(range(2000))
        assert model.stats().workers == 2


async def test_a_cluster_without_room(started):
    """What was asked for, and what there is."""
    with pytest.raises(
        WorkerStartError, match=r"within 500 ms: expected room for num_cpus=64.*CPU=2"
    ):
        await started(handlers.double, num_cpus=64, start_timeout=0.5)


async def test_a_handler_that_can_not_be_built(started):
    """The first start fails with the actor's own traceback."""
    with pytest.raises(WorkerStartError, match="RuntimeError: the weights are missing") as caught:
        await started(handlers.Broken, count=2)
    assert "handlers.py" in str(caught.value)


async def test_an_actor_that_dies_before_it_is_ready(started):
    """That it died is told."""
    with pytest.raises(WorkerStartError, match=r"died before it was ready"):
        await started(handlers.DiesEarly)


async def test_closing_leaves_nothing(started):
    """An actor that holds a batch is killed, and so is an idle one."""
    pool = await started(handlers.Obeys, count=2)
    pids = [(await pool.run(["process"], worker))[0] for worker in (0, 1)]
    batch = asyncio.create_task(pool.run(["hang"], 0))
    await asyncio.sleep(0)
    await pool.aclose()
    with pytest.raises(WorkerLost):
        await batch
    await pool.aclose()
    assert pool.health.alive == 0
    # Ray says so a moment before
    await until(lambda: all(handlers.dead(pid) for pid in pids))


_ENDS_AS_TOLD = """
import asyncio, signal
from adaptive_batching import RayWorkers, batched
from tests.workers.handlers import Obeys

async def main():
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with batched(workers=RayWorkers(1, num_cpus=0))(Obeys):
        print("ready", flush=True)
        await told.wait()
    print("drained", flush=True)

asyncio.run(main())
"""


async def test_sigterm_is_left_to_the_program():
    """Ray's core would print a stack and abort, and `serve` could not answer what it has.

    It does so where it has started a cluster on this machine, not where it joins one.
    """
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _ENDS_AS_TOLD),
        env=os.environ | {"RAY_ADDRESS": "local"},
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        while await program.stdout.readline() not in {b"ready\n", b""}:
            pass
        program.terminate()
        output, _ = await program.communicate()
        assert b"drained\n" in output
        assert program.returncode == 0
    finally:
        if program.returncode is None:
            program.kill()
