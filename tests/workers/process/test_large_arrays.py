"""Large arrays to worker processes and back, through memory that both share."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from struct import pack

import numpy as np
import pytest

from adaptive_batching.errors import BatchFunctionError, WorkerLost
from adaptive_batching.wire.frames import encode
from adaptive_batching.workers.elsewhere import Processes
from tests.workers import handlers
from tests.workers.pool.test_pool import Changes
from tests.workers.process.test_programs import ROOT, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfd")

MEBIBYTE = 2**20


def large(number, size=MEBIBYTE):
    return np.full(size, number % 256, np.uint8)


def mappings(pid="self"):
    """The memory that a process shares, by inode."""
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        return {line.split()[4] for line in lines if "memfd:adaptive-batching" in line}
    return set()


def names():
    """What is in /dev/shm, but for the semaphores of programs that happen to run beside us."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


def belongings():
    """What could leak; not what earlier tests left to the garbage collector."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), mappings(), names()


@pytest.mark.parametrize("shared_memory", [0, 3 * MEBIBYTE])
async def test_what_finds_no_room_goes_over_the_socket(started, shared_memory):
    """Whether there is room for some or for none, all arrays arrive."""
    pool = await started(handlers.identity, shared_memory=shared_memory)
    for number in range(5):
        batch = [large(number + index) for index in range(4)]
        results = await pool.run(batch, 0)
        assert all(np.array_equal(a, b) for a, b in zip(batch, results, strict=True))
        results[0][:] = 0  # they are the caller's own


async def test_what_is_kept_stays_what_it_is(started):
    """Neither results that the caller keeps nor items that the handler keeps are written over."""
    pool = await started(handlers.Keeps, shared_memory=16 * MEBIBYTE)
    kept = []
    for number in range(12):  # more than fit
        kept += await pool.run([large(number)], 0)
    assert [array.min() for array in kept] == list(range(12))
    await pool.aclose()
    assert [array.max() for array in kept] == list(range(12))


async def test_items_that_the_handler_keeps(started):
    """A batch that comes later is laid beside them, not over them."""
    pool = await started(handlers.Keeps, shared_memory=16 * MEBIBYTE)
    for number in range(12):
        await pool.run([large(number)], 0)
    assert await pool.run(["all"], 0) == [list(range(12))]


async def test_a_worker_killed_in_the_middle_of_a_batch_leaks_nothing(started):
    """Neither its files nor its memory; results of its earlier batches live on."""
    files_before, shared_before, names_before = belongings()
    changes = Changes()
    pool = await started(handlers.Obeys, on_change=changes)
    (_, kept) = await pool.run(["echo", large(5)], 0)
    (used,) = mappings() - shared_before
    batch = asyncio.create_task(pool.run(["hang", large(6)], 0))
    await asyncio.sleep(0)
    os.kill(pool.pids[0], signal.SIGKILL)
    with pytest.raises(WorkerLost):
        await batch
    await changes.until(lambda: pool.health.alive == 1)
    assert used in mappings()
    assert kept.max() == kept.min() == 5
    del kept
    assert used not in mappings()
    await pool.run(["echo", large(7)], 0)
    await pool.aclose()
    files, shared, left = belongings()
    assert files <= files_before
    assert shared <= shared_before
    assert left <= names_before


BUSY = """
import asyncio
import numpy as np
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.elsewhere import Processes
from tests.workers.handlers import Obeys

async def main():
    pool = make_workers(Obeys, Processes())
    await pool.start(lambda: None)
    kept = await pool.run(["echo", np.ones(1_000_000)], 0)
    print(*pool.pids, flush=True)
    await pool.run(["hang", np.ones(1_000_000)], 0)

asyncio.run(main())
"""


def test_a_killed_parent_leaves_no_memory():
    """What had no name is gone with those who had it mapped."""
    before = names()
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        worker = int(program.stdout.readline())
        (used,) = mappings(program.pid)
        assert mappings(worker) == {used}
        os.kill(program.pid, signal.SIGKILL)
    everybody = [entry for entry in os.listdir("/proc") if entry.isdigit()]
    until(lambda: not any(used in mappings(pid) for pid in everybody))
    assert names() <= before


async def test_a_worker_that_answers_garbage(started):
    """Nothing is read out of bounds; the batch fails with what is wrong, a new worker comes."""
    changes = Changes()
    pool = await started(handlers.Lies, on_change=changes)
    frame = pack("<IIQQQ", 1, 0, 0, 2**40, 0)
    message = (
        "expected memory between 134217728 and 268435456, got 1099511627776 bytes at 0; it was"
    )
    with pytest.raises(WorkerLost, match=rf"worker 0 .* an answer that can't be read: {message}"):
        await pool.run([b"".join(encode([frame]))], 0)
    await changes.until(lambda: pool.health.restarts == 1 and pool.health.alive == 1)


async def test_shared_memory_counts_as_results(started):
    """Results above the cap are refused wherever they are laid, and take nothing."""
    pool = await started(handlers.identity, max_result_bytes=MEBIBYTE, shared_memory=4 * MEBIBYTE)
    for number in range(3):
        with pytest.raises(BatchFunctionError, match="at most 1,048,576 bytes together, got"):
            await pool.run([large(number)], 0)
        (array,) = await pool.run([large(number, 1_000_000)], 0)
        assert array.max() == array.min() == number


@pytest.mark.parametrize("wrong", [-1, 0.5, "1 GiB"])
def test_an_impossible_amount(wrong):
    """What was expected and what was given."""
    with pytest.raises(ValueError, match="shared_memory: expected at least 0 bytes, got"):
        Processes(shared_memory=wrong)
