"""What models do to their processes, and what becomes of their batches."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import uvloop

from adaptive_batching.core import JobOutcome, Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import (
    BatchFunctionError,
    DeadlineExceeded,
    RemoteError,
    WorkerLost,
    WorkerTimeout,
)
from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.handler.results import raised_by_calls
from adaptive_batching.workers.placement import Threads
from tests.workers.conditions import until
from tests.workers.faulty import LOCK, Faulty
from tests.workers.handlers import dead
from tests.workers.process.test_programs import ROOT

DOOMED = """
import asyncio, sys
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.elsewhere import Processes
from tests.workers.faulty import Faulty, LoadsForever

async def main(what):
    pool = make_workers(LoadsForever if what == "load" else Faulty, Processes())
    await pool.start(lambda: None)
    await pool.run(["say_and_do", what], 0)

asyncio.run(main(sys.argv[1]))
"""


# ------------------------------------------------------------------------------------ no answer


@pytest.mark.parametrize("how", ["spin", "hold_the_lock", "stop"])
async def test_nobody_waits_for_a_stuck_worker_beyond_his_own_deadline(how):
    """Each member is told at his deadline; the worker is killed later, and its heir answers."""
    workers = make_workers(Faulty, Processes(timeout=1.5))
    async with Dispatcher[str, str](workers, Limits(4), policy="greedy") as dispatcher:
        (stuck,) = workers.pids
        began = time.monotonic()

        async def told(item, patience):
            with pytest.raises(DeadlineExceeded, match="its batch still ran after"):
                await dispatcher.submit(item, max_latency=patience)
            return time.monotonic() - began

        soon, later = await asyncio.gather(told(how, 0.2), told("member", 0.5))
        assert 0.2 <= soon < later >= 0.5
        assert workers.health.alive == 1 or time.monotonic() - began >= 1.5
        assert await dispatcher.submit("next") == "next"
        assert dead(stuck)
        assert dispatcher.stats().requests[JobOutcome.EXPIRED] == 2


@pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
@pytest.mark.parametrize("place", [Processes(), Threads(1)], ids=["process", "thread"])
def test_an_answer_that_is_there_is_given_by_a_loop_that_is_late(place, loop):
    """The worker answered before the deadline; the loop was held until after it."""

    async def story():
        async with Dispatcher[str, str](make_workers(Faulty, place), Limits(4)) as dispatcher:
            await dispatcher.submit("first")
            waiting = asyncio.ensure_future(dispatcher.submit("nap", max_latency=1.0))
            for _ in range(6):  # its batch is on its way
                await asyncio.sleep(0)
            assert not waiting.done()
            time.sleep(1.5)  # noqa: ASYNC251  as a handler of other requests would
            assert await waiting == "nap"

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


# --------------------------------------------------------------------------------------- death


async def test_an_idle_worker_that_dies_costs_nobody_an_answer():
    """Who comes while there is none waits for its heir."""
    workers = make_workers(Faulty, Processes())
    async with Dispatcher[str, str](workers, Limits(4)) as dispatcher:
        assert await dispatcher.submit("before") == "before"
        os.kill(workers.pids[0], signal.SIGKILL)
        await until(lambda: not workers.health.alive)
        assert await dispatcher.submit("after") == "after"
        assert dispatcher.stats().requests[JobOutcome.DONE] == 2


@pytest.mark.parametrize(
    ("how", "fate"),
    [
        ("segfault", "was killed by SIGSEGV"),
        ("abort", "was killed by SIGABRT"),
        ("leave", "exited with 0"),
        ("real_time_signal", "was killed by signal 35"),
    ],
)
async def test_a_sudden_end(started, how, fate):
    """The batch is lost at once, whatever the exit status pretends, and an heir comes."""
    pool = await started(Faulty)
    with pytest.raises(WorkerLost, match=f"{fate} while it held a batch of 2"):
        await pool.run([how, "other"], 0)
    await until(lambda: pool.health.alive)
    assert await pool.run(["echo"], 0) == ["echo"]


async def test_a_dead_worker_whose_forked_child_holds_our_socket(started, tmp_path):
    """No end of file comes; the batch is lost at once all the same, and the child ends as well."""
    pool = await started(Faulty)
    note = tmp_path / "pid"
    with pytest.raises(WorkerLost, match="exited with 0 while it held a batch of 2"):
        await pool.run(["fork_and_leave", str(note)], 0)
    await until(lambda: dead(int(note.read_text())))


async def test_a_forked_process_that_comes_back_answers_nobody(started, tmp_path, caplog):
    """Its answer would be taken for that of the next batch; it ends, and the log says why."""
    pool = await started(Faulty)
    go, back = tmp_path / "go", tmp_path / "go.back"
    assert await pool.run(["fork_and_come_back", str(go)], 0) == ["fork_and_come_back", str(go)]
    go.touch()
    await until(lambda: back.exists() and dead(int(back.read_text() or 0)))
    for number in range(3):
        assert await pool.run([number], 0) == [number]
    await until(lambda: "that the handler forked came back from it: end it there" in caplog.text)
    assert pool.health.restarts == 0


async def test_a_worker_that_is_killed_takes_its_helpers_along(started, tmp_path):
    """A program that the handler has started does not outlive the batch that wanted it."""
    pool = await started(Faulty, timeout=0.5)
    note = tmp_path / "pid"
    with pytest.raises(WorkerTimeout):
        await pool.run(["help_and_hang", str(note)], 0)
    await until(lambda: dead(int(note.read_text())))


async def test_a_worker_that_crashes_takes_its_helpers_along(started, tmp_path):
    """Nobody else knows of them; but nobody waits for their end who was in the batch."""
    pool = await started(Faulty)
    note = tmp_path / "pid"
    with pytest.raises(WorkerLost, match="was killed by SIGABRT while it held a batch of 2"):
        await pool.run(["help_and_crash", str(note)], 0)
    assert not dead(int(note.read_text()))
    await until(lambda: dead(int(note.read_text())))


@pytest.mark.parametrize("how", ["share_and_crash", "share_and_hang"])
async def test_what_a_worker_had_shared_is_unlinked(started, tmp_path, how):
    """The process that Python has for that is given the time for it."""
    pool = await started(Faulty, timeout=2.0)
    note = tmp_path / "name"
    with pytest.raises((WorkerLost, WorkerTimeout)):
        await pool.run([how, str(note)], 0)
    await until(lambda: not Path("/dev/shm", note.read_text()).exists())


async def test_a_worker_that_leaves_takes_its_helpers_along(started):
    """A rolling restart leaves no more processes behind than were there before it."""
    pool = await started(Faulty)
    (helper,) = await pool.run(["help"], 0)
    assert not dead(helper)
    await pool.restart()
    await until(lambda: dead(helper))


async def test_a_handler_that_closes_our_socket(started):
    """It is told from one that was killed by somebody else."""
    pool = await started(Faulty)
    message = "closed the socket that it was given, and was killed while it held a batch of 1"
    with pytest.raises(WorkerLost, match=message):
        await pool.run(["close_everything"], 0)
    await until(lambda: pool.health.alive)


@pytest.mark.skipif(sys.platform != "linux", reason="prctl")
@pytest.mark.parametrize("busy_with", ["spin", "hold_the_lock", "stop", "load"])
def test_a_killed_parent_takes_its_worker_along(busy_with):
    """Whatever it does just then: it need not read, and need not even run."""
    command = [sys.executable, "-c", DOOMED, busy_with]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        worker = int(program.stdout.readline())
        os.kill(program.pid, signal.SIGKILL)
        while not dead(worker):
            time.sleep(0.01)


# ------------------------------------------------------------------------------ answers, of sorts


@pytest.mark.parametrize("how", ["hoard", "one_large_array", "hoard_beside_another"])
async def test_out_of_memory(started, how, caplog):
    """The batch fails with MemoryError; its worker goes on until a fresh one takes its place."""
    pool = await started(Faulty)
    (short,) = pool.pids
    with pytest.raises(MemoryError):
        raise raised_by_calls(await pool.run([how], 0))[0]
    assert await pool.run(["echo"], 0) == ["echo"]
    await until(lambda: pool.health.renewed == 1 and dead(short))
    assert await pool.run(["echo"], 0) == ["echo"]
    assert pool.health.restarts == 0
    assert f"worker 0 (pid {short}) ran out of memory: a fresh one" in caplog.text


@pytest.mark.parametrize(("how", "size"), [("half_a_gigabyte", "500,000,"), ("large_error", "5,0")])
async def test_results_above_the_cap(started, how, size):
    """They are refused where they are, and said to be too large; nothing of them comes over."""
    pool = await started(Faulty, max_result_bytes=2**20)
    before = psutil.Process().memory_info().rss
    message = rf"of at most 1,048,576 bytes together, got {size}.*: see max_result_bytes"
    with pytest.raises(BatchFunctionError, match=message):
        await pool.run([how], 0)
    assert psutil.Process().memory_info().rss - before < 2**25
    assert await pool.run(["echo"], 0) == ["echo"]
    assert pool.health.restarts == 0


async def test_half_a_gigabyte_is_above_the_cap_of_those_who_set_none(started):
    """A quarter of one is a mistake already, or wants to be streamed."""
    pool = await started(Faulty)
    with pytest.raises(BatchFunctionError, match="268,435,456 bytes"):
        await pool.run(["half_a_gigabyte"], 0)


async def test_odd_results(started):
    """What can't be pickled has an error in its place; NaN is a number like others here."""
    pool = await started(Faulty)
    (nested,) = await pool.run(["nested_too_deep"], 0)
    assert isinstance(nested, BatchFunctionError)
    assert str(nested) == "a result of type list can't be sent from its worker process"
    (number,) = await pool.run(["not_a_number"], 0)
    assert number != number  # noqa: PLR0124  that is what it is


async def test_answers_that_would_end_who_reads_them(started):
    """A result that exits when it is unpickled fails; an error that does is described."""
    pool = await started(Faulty)
    with pytest.raises(RemoteError, match="can't be unpickled here: SystemExit: unpickled"):
        await pool.run(["exit_on_arrival"], 0)
    with pytest.raises(RemoteError, match=r"faulty\.ErrorThatExitsOnArrival"):
        await pool.run(["error_that_exits_on_arrival"], 0)
    assert await pool.run(["echo"], 0) == ["echo"]
    assert pool.health.restarts == 0


async def test_a_handler_that_writes_to_our_socket(started, caplog):
    """What is no frame costs the worker, and nothing is kept of it."""
    pool = await started(Faulty)
    message = r"sent what is no answer: expected a frame of at most .* got 4294967295; it was kil"
    with pytest.raises(WorkerLost, match=message):
        await pool.run(["garbage"], 0)
    await until(lambda: pool.health.alive)
    assert await pool.run(["echo"], 0) == ["echo"]
    assert "Fatal error" not in caplog.text  # asyncio's words for what nobody caught


async def test_a_worker_inherits_nothing(started):
    """But its own end of the socket, and its own memory: no listener, no file, nobody else's."""
    with open("/dev/null") as file:  # noqa: ASYNC230  it is opened at once
        os.set_inheritable(file.fileno(), True)  # noqa: FBT003
        pool = await started(Faulty, count=2)
        (files,) = await pool.run(["open_files"], 1)
    assert files.count("socket") <= 3  # ours, and the pair that wakes the loop of async handlers
    assert files.count("/memfd") <= 1
    assert set(files) <= {"socket", "anon_inode", "/memfd"}


async def test_a_worker_is_no_fork_of_us(started):
    """A copy would wait for ever for what another thread of ours held at that moment."""
    with LOCK:
        pool = await started(Faulty)
        assert await pool.run(["find_a_lock"], 0) == [True]


@pytest.mark.parametrize("cap", [1000, 2**31, -1])
def test_a_cap_out_of_range(cap):
    """An error must fit, and a frame has a largest length."""
    with pytest.raises(ValueError, match="expected max_result_bytes from 65536 to 1073741824, got"):
        Processes(max_result_bytes=cap)
