"""What workers print becomes lines of our log, and too much of it harms nobody."""

# ruff: noqa: T201  it is about print

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time

import pytest

from adaptive_batching.errors import WorkerLost
from adaptive_batching.workers.process.output import LogLines, Output
from tests.workers.conditions import until
from tests.workers.process.test_programs import ROOT

NAME = "adaptive_batching.workers.Talks.0"

QUIET_PROGRAM = """
# ruff: noqa: T201  it is about print

import asyncio
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.elsewhere import Processes
from tests.workers.process.test_output import Talks

async def main():
    pool = make_workers(Talks, Processes())
    await pool.start(lambda: None)
    await pool.run(["a word"], 0)
    await pool.aclose()

asyncio.run(main())
"""


class Talks:
    """Prints what it gets, or more."""

    def __init__(self):
        print("loading")

    def __call__(self, items):
        getattr(self, items[0], self.prints)(items)
        return items

    def prints(self, items):
        for item in items:
            print(item)
            print(item.upper(), file=sys.stderr)

    def floods(self, items):
        for number in range(300_000):
            print("line", number)

    def never_ends(self, items):
        for _ in range(300):
            os.write(1, bytes(2**16))

    def crashes(self, items):
        os.kill(os.getpid(), signal.SIGSEGV)

    def leaves_a_daemon(self, items):
        """Starts a process that keeps our output open, then ends."""
        daemon = subprocess.Popen(["sleep", "60"], start_new_session=True)
        print("daemon", daemon.pid)
        os._exit(0)


def lines_of(caplog, level=None):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == NAME and level in (None, record.levelno)
    ]


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "adaptive_batching.workers")
    return caplog


async def test_lines_reach_the_log_under_the_name_of_their_worker(started, log):
    """Output as information, error as a warning; from the moment when the model loads."""
    pool = await started(Talks)
    await pool.run(["one", "grün\ntwo\n\n", "bar 1\rbar 2"], 0)
    await until(lambda: len(lines_of(log)) == 11)
    spoken = ["loading", "one", "grün", "two", "bar 1", "bar 2"]
    assert lines_of(log, logging.INFO) == spoken
    assert lines_of(log, logging.WARNING) == [line.upper() for line in spoken[1:]]


async def test_last_words(started, log):
    """A crash in C code leaves the line of Python that led to it, although the process is gone."""
    pool = await started(Talks)
    with pytest.raises(WorkerLost, match="SIGSEGV"):
        await pool.run(["crashes"], 0)
    errors = "\n".join(lines_of(log, logging.WARNING))
    assert "Fatal Python error: Segmentation fault" in errors
    assert "in crashes" in errors


@pytest.mark.parametrize("how", ["floods", "never_ends"])
async def test_a_flood_blocks_nobody(started, log, how):
    """Some of it is logged, the rest is counted; batch and event loop go on meanwhile."""
    pool = await started(Talks)
    batch = asyncio.create_task(pool.run([how], 0))
    longest = turns = 0
    while not batch.done():
        began = time.thread_time()
        await asyncio.sleep(0.001)
        longest = max(longest, time.thread_time() - began)
        turns += 1
    assert await batch == [how]
    assert turns > 10
    assert longest < 0.5
    await pool.aclose()
    lines = lines_of(log)
    assert len(lines) < 5_000
    assert max(map(len, lines)) < 20_000  # a byte that is no text takes four letters
    if how == "floods":
        said = [int(line.split()[0][1:]) for line in lines if "more lines" in line]
        assert sum(said) + sum(line.startswith("line") for line in lines) == 300_000


async def test_a_grandchild_that_keeps_the_output_open(started, log):
    """Nobody waits for it: the end of the worker is the end of its log."""
    pool = await started(Talks)
    files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(WorkerLost, match="exited with 0"):
        await pool.run(["leaves_a_daemon"], 0)
    daemon = int(lines_of(log)[-1].split()[1])
    os.kill(daemon, signal.SIGKILL)
    await until(lambda: pool.health.alive)
    assert len(os.listdir("/proc/self/fd")) <= files


def test_without_logging_it_goes_where_ours_goes():
    """A program that never heard of logging sees what its handler prints."""
    program = subprocess.run(
        [sys.executable, "-W", "error", "-c", QUIET_PROGRAM],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert program.stdout == "loading\na word\n"
    assert program.stderr == "A WORD\n"


def test_lines_in_any_chunks():
    """Blank lines are left out, long ones cut, those beyond the number counted."""
    lines = LogLines()
    assert lines.feed(b"on", 9) == ([], 0)
    assert lines.feed(b"e\r\n\ntwo\nth", 9) == (["one", "two"], 0)
    assert lines.feed(b"ree\nfour\nfive\nsi", 1) == (["three"], 2)
    assert lines.feed(b"x\nseven\n", 0) == ([], 2)
    assert lines.feed(b"x" * 9000, 9) == ([], 0)
    ((line,), _) = lines.feed(b"x" * 9000 + b"\nend", 9)
    assert line == "x" * 4096 + " (cut at 4096 bytes)"
    assert lines.end() == ["end"]
    assert lines.end() == []


async def test_closing_twice(caplog):
    """Nothing is left to close, and the last words are logged once."""
    caplog.set_level(logging.INFO)
    output = Output("test")
    with output.write_ends() as (out, _):
        os.write(out, b"half a line")
    output.close()
    output.close()
    assert caplog.messages == ["half a line"]
