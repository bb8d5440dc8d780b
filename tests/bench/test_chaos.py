"""Workers killed and stopped under load: nobody is forgotten; and the judges see what they must."""

import asyncio
import os
from random import Random

import pytest
from click.testing import CliRunner

from adaptive_batching.bench.chaos.callers import call_for
from adaptive_batching.bench.chaos.holdings import Holdings
from adaptive_batching.bench.chaos.run import measure
from adaptive_batching.cli import main
from adaptive_batching.core import Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import Overloaded, WorkerLost
from adaptive_batching.workers.local import TaskWorkers


async def test_two_seconds_of_chaos():
    """Every call has exactly one outcome, every answer is right, and nothing is left behind."""
    report = await measure(duration=2.0, every=0.8, seed=1)
    peace, attacked = report.rows
    assert peace["killed"] == peace["stopped"] == peace["restarts"] == peace["lost"] == 0
    assert attacked["killed"] + attacked["stopped"] >= 1
    assert attacked["calls"] == peace["calls"] > 1000
    goodput, *others = report.verdicts
    assert goodput.measured > 0.2  # so few seconds are mostly restarts
    assert [verdict.measured for verdict in others] == [0, 0, 0]
    assert "seed 1," in report.title


@pytest.mark.parametrize("option", ["--duration=0", "--every=0"])
def test_chaos_without_time(option):
    """What was expected."""
    result = CliRunner().invoke(main, ["bench", "chaos", option])
    assert result.exit_code == 2
    assert "of more than 0 s" in result.stderr


async def test_callers_tell_the_ends_apart():
    """Right, wrong, lost, refused and unexpected ones, by what the handler did to them."""

    async def mixed(numbers):
        answers = [3 * number + 1 for number in numbers]
        for place, number in enumerate(numbers):
            odd = {1: 0, 2: WorkerLost("died"), 3: Overloaded("full"), 4: ValueError("odd")}
            answers[place] = odd.get(number % 5, answers[place])
        return answers

    async with Dispatcher[int, int](TaskWorkers(mixed, 1), Limits(8)) as dispatcher:
        outcomes = await call_for(dispatcher, 2000.0, 0.1, Random(0))
    assert set(outcomes.ends) == {"right", "wrong", "lost", "refused", "unexpected"}
    assert outcomes.ends.total() == outcomes.calls
    assert len(outcomes.latencies) == outcomes.ends["right"]


async def test_what_is_not_given_back_is_counted(monkeypatch):
    """A file, a task and a process that hasn't been reaped."""
    monkeypatch.setattr("adaptive_batching.bench.chaos.holdings._LOOKS", 5)
    before = Holdings.now()
    assert await before.leaked() == 0
    file = os.open("/dev/null", os.O_RDONLY)
    task = asyncio.create_task(asyncio.Event().wait())
    child = os.posix_spawn("/bin/true", ["true"], {})  # noqa: ASYNC221  at once
    assert await before.leaked() == 3
    os.close(file)
    os.waitpid(child, 0)  # noqa: ASYNC222  it has long ended
    task.cancel()
    assert await before.leaked() == 0
