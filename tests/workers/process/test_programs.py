"""Worker processes of whole programs: how they find `__main__`, and how they end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.workers.handlers import dead

ROOT = Path(__file__).parents[3]

PROGRAM = """
import asyncio
from dataclasses import dataclass
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.elsewhere import Processes

@dataclass
class Point:
    x: int

class Sour(Exception):
    pass

class Mirror:
    def __call__(self, points):
        if points == ["sour"]:
            raise Sour(__name__)
        return [Point(-point.x) for point in points]

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # slow callbacks are logged
    pool = make_workers(Mirror, Processes())
    await pool.start(lambda: None)
    print(await pool.run([Point(1)], 0))
    try:
        await pool.run(["sour"], 0)
    except Sour as error:
        print(error)
    print(*pool.pids)
"""
GUARDED = PROGRAM + "if __name__ == '__main__':\n    asyncio.run(main())\n"

WITH_A_CHILD = """
import asyncio
import multiprocessing
from adaptive_batching import batched

class Double:
    def __call__(self, numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

double = batched(max_batch_size=4)(Double)

@batched(max_batch_size=4)
class Halve:
    def __call__(self, numbers: list[int]) -> list[int]:
        return [number // 2 for number in numbers]

async def called():
    asyncio.get_running_loop().slow_callback_duration = 60  # slow callbacks are logged
    print(await double(21), await Halve(84))

def child():
    asyncio.run(called())

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
"""

BUSY = """
import asyncio
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.elsewhere import Processes
from tests.workers.handlers import Obeys

async def main():
    pool = make_workers(Obeys, Processes())
    await pool.start(lambda: None)
    await pool.run(["hang_loudly"], 0)

asyncio.run(main())
"""


def run(*arguments, cwd=ROOT, **options):
    """Run Python with every warning an error; returns what it printed and complained about."""
    command = [sys.executable, "-X", "dev", "-W", "error", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **options)


def until(condition):
    """Wait on the operating system."""
    while not condition():
        time.sleep(0.01)


@pytest.mark.parametrize("started_as", ["script", "module"])
def test_handlers_and_items_of_a_program(started_as, tmp_path):
    """A worker imports the program without running it, and both understand each other's classes.

    Nothing is closed here: the end of the event loop leaves no process and no warning.
    """
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "counter.py").write_text(GUARDED)
    arguments = ["shop/counter.py"] if started_as == "script" else ["-m", "shop.counter"]
    program = run(*arguments, cwd=tmp_path)
    assert program.stderr == ""
    answer, name, pid = program.stdout.splitlines()
    assert answer == "[Point(x=-1)]"
    assert name == "__mp_main__"
    assert dead(pid)


@pytest.mark.parametrize("late", ["", "import multiprocessing\n"])
def test_a_program_without_a_guard(late, tmp_path):
    """Its workers refuse to start workers, and say what is missing, whatever it imports when."""
    script = tmp_path / "unguarded.py"
    script.write_text(PROGRAM + late + "asyncio.run(main())\n")
    program = run(str(script))
    assert "WorkerStartError" in program.stderr
    assert "under `if __name__ == '__main__':`" in program.stderr


@pytest.mark.parametrize("started_as", ["script", "module"])
def test_a_program_that_multiprocessing_imports_anew(started_as, tmp_path):
    """Its children decorate the same classes, as those of `uvicorn.run(…, reload=True)` do, and
    can start workers of their own.
    """
    (tmp_path / "parent.py").write_text(WITH_A_CHILD)
    arguments = ["parent.py"] if started_as == "script" else ["-m", "parent"]
    program = run(*arguments, cwd=tmp_path)
    assert (program.stdout, program.stderr) == ("42 42\n", "")


def test_a_handler_typed_at_a_prompt():
    """The message says where to put it."""
    program = run("-c", PROGRAM + "asyncio.run(main())")
    assert "Mirror comes from a prompt, a notebook, a pipe or an archive" in program.stderr
    assert "move it to a module" in program.stderr


def test_the_end_of_the_loop_ends_a_busy_worker():
    """A program that is interrupted in the middle of a batch leaves nothing behind."""
    command = [sys.executable, "-W", "error", "-c", BUSY]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        worker = int(program.stdout.readline())
        program.send_signal(signal.SIGINT)
        complaints = program.communicate()[1]
    assert dead(worker)
    assert complaints.rstrip().endswith("KeyboardInterrupt")
    assert "Warning" not in complaints


@pytest.mark.skipif(sys.platform != "linux", reason="prctl")
def test_a_killed_parent_takes_its_busy_worker_along():
    """The worker does not have to read from its socket to notice."""
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        worker = int(program.stdout.readline())
        os.kill(program.pid, signal.SIGKILL)
        until(lambda: dead(worker))
