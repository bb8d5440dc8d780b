"""Worker processes: what they answer, how they die and how they are replaced."""

import asyncio
import os
import signal
import threading

import numpy as np
import pytest

from adaptive_batching.errors import (
    BatchFunctionError,
    HandlerError,
    HandlerNotFound,
    RemoteError,
    WorkerLost,
    WorkerStartError,
    WorkerTimeout,
)
from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.handler.handler_reference import HandlerReference
from adaptive_batching.workers.interface import Health
from tests.workers import decorated, handlers
from tests.workers.handlers import dead

NONE: frozenset[int] = frozenset()
BOTH = frozenset({0, 1})


class Changes:
    """Lets a test wait until the health of a pool is what it expects."""

    def __init__(self):
        self._changed = asyncio.Event()

    def __call__(self):
        self._changed.set()

    async def until(self, condition):
        while not condition():
            await self._changed.wait()
            self._changed.clear()


# ------------------------------------------------------------------------------------ answers


async def test_batches_run_on_the_worker_that_they_are_for(started):
    """The pool chooses nothing."""
    pool = await started(handlers.where, count=2)
    pids = [(await pool.run([0], worker))[0][0] for worker in (0, 1, 1, 0)]
    first, second = pool.pids
    assert pids == [first, second, second, first]
    assert pool.health == Health(BOTH, 2)


async def test_workers_run_side_by_side(started):
    """Each batch gets its own results back."""
    pool = await started(handlers.double, count=2)
    assert await asyncio.gather(pool.run([1], 0), pool.run([2, 3], 1)) == [[2], [4, 6]]


async def test_handlers_may_be_async(started):
    """A coroutine runs on a loop that is kept in the child, and so does the warm-up."""
    pool = await started(handlers.Warmed)
    assert await pool.run([1, 2], 0) == [True, True]


async def test_a_wrap_runs_in_the_worker(started):
    """What the wrap returns is called instead of the handler."""
    pool = await started(handlers.double, wrap=handlers.doubled_items)
    assert await pool.run([1, 2], 0) == [4, 8]


async def test_a_decorated_class_is_found_behind_its_decorator(started):
    """The name leads to the decorator's object; the handler stands behind it."""
    pool = await started(handlers.Decorated.__wrapped__)
    assert await pool.run([1], 0) == [-1]


async def test_large_arrays_there_and_back(started):
    """A batch of many megabytes arrives whole."""
    pool = await started(handlers.identity)
    batch = [np.full(500_000, number) for number in range(4)]
    results = await pool.run(batch, 0)
    assert all(np.array_equal(a, b) for a, b in zip(batch, results, strict=True))


async def test_whatever_a_handler_does_its_worker_answers(started):
    """Failures of the handler are answers: the same process goes on with the next batch."""
    pool = await started(handlers.Obeys)
    pids = pool.pids
    for order, error, message in [
        ("exit", BatchFunctionError, "raised SystemExit: 3 instead"),
        ("interrupt", BatchFunctionError, "raised KeyboardInterrupt instead"),
        ("value_error", ValueError, "no such thing"),
        ("out_of_memory", MemoryError, None),
        ("stop_iteration", RuntimeError, "StopIteration"),
        ("unpicklable_error", RemoteError, "^ValueError: <unlocked"),
        ("half_picklable_error", RemoteError, "handlers.Cannot: this and that"),
        ("none", BatchFunctionError, "expected a list of 2 results, got NoneType"),
        ("text", BatchFunctionError, "got str"),
        ("mapping", BatchFunctionError, "got dict"),
        ("generator", BatchFunctionError, "got generator"),
        ("too_short", BatchFunctionError, "Obeys: expected 2 results for a batch of 2, got 1"),
    ]:
        with pytest.raises(error, match=message):
            await pool.run([order, "other"], 0)
    locks = await pool.run(["unpicklable_result", "lock"], 0)
    assert {type(lock) for lock in locks} <= {BatchFunctionError, str, int}
    assert any("type _thread.lock" in str(lock) for lock in locks)
    assert await pool.run(["echo", 1], 0) == ["echo", 1]
    assert pool.pids == pids


async def test_exceptions_in_the_place_of_items(started):
    """They stay what they are, or become what can travel."""
    pool = await started(handlers.Obeys)
    fine, key, remote, left = await pool.run(["errors_in_place", 2, 3, 4], 0)
    assert fine == "errors_in_place"
    assert isinstance(key, KeyError)
    assert isinstance(remote, RemoteError)
    assert isinstance(left, BatchFunctionError)


async def test_arrays_are_rows(started):
    """An array comes back as one, with a row for each item."""
    pool = await started(handlers.Obeys)
    rows = await pool.run(["array", 1], 0)
    assert [row.tolist() for row in rows] == [[0, 1, 2], [3, 4, 5]]


async def test_items_that_can_not_be_sent(started):
    """Each is an error in its own place that names its type; its batchmates get their results."""
    pool = await started(handlers.double)
    first, lock, last = await pool.run([1, threading.Lock(), 3], 0)
    assert (first, last) == (2, 6)
    assert isinstance(lock, HandlerError)
    assert "type _thread.lock can't be sent" in str(lock)
    (alone,) = await pool.run([threading.Lock()], 0)
    assert isinstance(alone, HandlerError)
    assert await pool.run([1], 0) == [2]


# ------------------------------------------------------------------------------- deaths


async def test_a_worker_killed_in_the_middle_of_a_batch(started):
    """Its batch fails with what happened, the other worker is untouched, a new one comes."""
    changes = Changes()
    pool = await started(handlers.Obeys, count=2, on_change=changes)
    victim = pool.pids[0]
    batch = asyncio.create_task(pool.run(["hang", 1, 2], 0))
    await asyncio.sleep(0)
    os.kill(victim, signal.SIGKILL)
    lost = rf"worker 0 \(pid {victim}\) was killed by SIGKILL while it held a batch of 3"
    with pytest.raises(WorkerLost, match=lost):
        await batch
    assert pool.health == Health(frozenset({1}), 2)
    assert await pool.run(["echo"], 1) == ["echo"]
    await changes.until(lambda: pool.health == Health(BOTH, 2, restarts=1))
    assert victim not in pool.pids
    assert dead(victim)


async def test_a_worker_killed_while_idle(started):
    """It is replaced before anyone is hurt."""
    changes = Changes()
    pool = await started(handlers.double, on_change=changes)
    os.kill(pool.pids[0], signal.SIGKILL)
    await changes.until(lambda: pool.health == Health(NONE, 1))
    with pytest.raises(WorkerLost, match=r"worker 0 .* is not alive"):
        await pool.run([1], 0)
    await changes.until(lambda: pool.health == Health(frozenset({0}), 1, restarts=1))
    assert await pool.run([1], 0) == [2]


async def test_a_batch_for_a_worker_that_dies_in_the_same_instant(started):
    """Nobody knows yet that it is dead, and the batch fails like one that it held."""
    pool = await started(handlers.double)
    os.kill(pool.pids[0], signal.SIGKILL)
    with pytest.raises(WorkerLost, match="killed by SIGKILL"):
        await pool.run([1], 0)


async def test_a_handler_that_leaves_by_the_back_door(started):
    """The exit code is told."""
    pool = await started(handlers.Obeys)
    with pytest.raises(WorkerLost, match="exited with 3 while it held a batch of 1"):
        await pool.run(["exit_hard"], 0)


async def test_a_stopped_worker_is_killed_at_the_batch_timeout(started):
    """A process that does not run can still be killed, and is replaced."""
    changes = Changes()
    pool = await started(handlers.double, timeout=1.0, on_change=changes)
    victim = pool.pids[0]
    os.kill(victim, signal.SIGSTOP)
    with pytest.raises(WorkerTimeout, match=r"did not answer a batch of 2 in 1 s; it was kil"):
        await pool.run([1, 2], 0)
    assert pool.health.alive == 0
    await changes.until(lambda: pool.health.alive == 1)
    assert dead(victim)
    assert await pool.run([1], 0) == [2]


async def test_a_cancelled_batch_costs_its_worker(started):
    """Its late answer can't be taken for that of the next batch."""
    changes = Changes()
    pool = await started(handlers.Obeys, on_change=changes)
    batch = asyncio.create_task(pool.run(["hang"], 0))
    await asyncio.sleep(0)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert pool.health.alive == 0
    await changes.until(lambda: pool.health.alive == 1)
    assert await pool.run(["echo"], 0) == ["echo"]


async def test_signals_are_left_to_the_parent(started):
    """Ctrl-C and SIGTERM to the whole group don't cost a batch."""
    pool = await started(handlers.double)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pool.pids[0], number)
    assert await pool.run([1], 0) == [2]


async def test_closing_leaves_nothing(started):
    """A worker that holds a batch is killed, an idle one leaves; both are reaped."""
    pool = await started(handlers.Obeys, count=2)
    pids = pool.pids
    batch = asyncio.create_task(pool.run(["hang"], 0))
    await asyncio.sleep(0)
    await pool.aclose()
    with pytest.raises(WorkerLost, match="killed by SIGKILL"):
        await batch
    await pool.aclose()
    assert pool.health == Health(NONE, 2)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


# ------------------------------------------------------------------------------- beginnings


async def test_a_handler_that_can_not_be_built(started):
    """The first start fails with the child's own traceback."""
    with pytest.raises(WorkerStartError, match="RuntimeError: the weights are missing") as caught:
        await started(handlers.Broken, count=2)
    assert "handlers.py" in str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)


async def test_a_worker_that_dies_before_it_is_ready(started):
    """The exit code is told."""
    with pytest.raises(WorkerStartError, match=r"exited with 4 before it was ready"):
        await started(handlers.DiesEarly)


async def test_a_worker_that_is_never_ready(started):
    """It is killed after the start timeout."""
    with pytest.raises(WorkerStartError, match="was not ready within 200 ms"):
        await started(handlers.NeverReady, start_timeout=0.2)


async def test_a_handler_that_the_worker_does_not_find(started):
    """The name is gone by the time the worker looks for it."""

    def gone(items):
        return items

    gone.__qualname__ = "gone"
    gone.__module__ = handlers.__name__
    with pytest.raises(HandlerNotFound, match=r"module tests\.workers\.handlers has no gone"):
        await started(gone)


async def test_a_failing_restart_is_told_by_the_health(started, tmp_path, monkeypatch):
    """While no worker can be started, `health.failure` says why."""
    module = tmp_path / "fragile_handler.py"
    module.write_text("def same(items):\n    return items\n")
    monkeypatch.syspath_prepend(tmp_path)
    import fragile_handler

    changes = Changes()
    pool = await started(fragile_handler.same, on_change=changes)
    module.write_text("raise RuntimeError('broken meanwhile')\n")
    os.kill(pool.pids[0], signal.SIGKILL)
    await changes.until(lambda: pool.health.failure is not None)
    assert "broken meanwhile" in str(pool.health.failure)
    module.write_text("def same(items):\n    return items\n")
    await changes.until(lambda: pool.health.alive == 1)
    assert pool.health.failure is None


# --------------------------------------------------------------------------------- pinning


async def test_pinning_comes_before_the_model(started):
    """The handler's module sees its one core and its thread limit while it is imported."""
    core = min(os.sched_getaffinity(0))
    pool = await started(handlers.where, cpus=[core])
    assert (await pool.run([0], 0))[0][1] == {"cpus": [core], "threads": "1"}


async def test_several_cores_for_one_worker(started):
    """Thread pools are as large as the worker's share of the machine."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    pool = await started(handlers.where, cpus=[cores])
    assert (await pool.run([0], 0))[0][1] == {"cpus": cores, "threads": str(len(cores))}


@pytest.mark.parametrize(
    ("count", "cpus", "message"),
    [
        (2, [0], "expected cpus for 2 processes, got cpus for 1"),
        (1, [[]], "expected at least one cpu for each process"),
    ],
)
def test_cores_that_do_not_fit(count, cpus, message):
    """What was expected and what was given."""
    with pytest.raises(ValueError, match=message):
        Processes(count, cpus=cpus)


@pytest.mark.parametrize(
    ("cpus", "got"),
    [([0.5], "0.5"), ([None], "None"), ("0", "'0'"), ([["0", "1"]], r"\['0', '1'\]")],
)
def test_cores_that_are_none(cpus, got):
    """Those of a configuration file may be texts; that is said before anything is started."""
    with pytest.raises(TypeError, match=f"expected the number of a core, or a list of .*{got}"):
        Processes(1, cpus=cpus)


async def test_cores_that_the_machine_does_not_have(started):
    """They are asked for when the workers start, and named."""
    with pytest.raises(ValueError, match=r"expected cpus out of \[.*\], got \[4096\]"):
        await started(handlers.double, cpus=[4096])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
async def test_a_pinned_worker_may_import_what_pins_it():
    """A decorated class asks for both cores; each worker, on one of them, imports it in peace."""
    async with decorated.Pinned as pinned:
        seen = await pinned.map(range(200))
    assert {tuple(cpus) for cpus in seen} == {(cpu,) for cpu in decorated.TWO_CORES}


# --------------------------------------------------------------------------- references


def test_handlers_without_a_name():
    """The message says what to do."""
    for handler, message in [
        (lambda items: items, "define it with def or class at the top level of a module"),
        (handlers.doubled_items(None), "at the top level of a module"),
        (handlers.Obeys(), "for an object give its class"),
    ]:
        with pytest.raises(HandlerNotFound, match=message):
            HandlerReference.to(handler)
