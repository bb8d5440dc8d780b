"""`adaptive-batching serve` with workers that are started by hand, as the documentation does it."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from tests.cli.test_serve import served
from tests.marshal.client import until

PAGE = Path(__file__).parents[2] / "docs/how-to/serve/external_workers.md"


@pytest.fixture
def digits(tmp_path, monkeypatch):
    """The current directory, with the page's module in it."""
    first = next(iter(Sybil([PythonCodeBlockParser()]).parse(PAGE).examples()))
    patient = first.parsed.replace("max_latency=0.1, ", "")  # this machine may pause
    (tmp_path / "digits.py").write_text(patient)
    monkeypatch.chdir(tmp_path)


async def worker():
    """The page's worker."""
    arguments = ("--connect", "digits.sock", "digits:Doubler")
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "adaptive_batching.external_worker", *arguments
    )


async def test_workers_leave_one_by_one_without_losing_a_request(digits):
    """They may come before the service; one is told to leave, and nobody who asks notices."""
    workers = [await worker(), await worker()]
    try:
        async with served("digits:service", "--drain-delay=0s") as (process, url, session):
            answers = []
            done = asyncio.Event()

            async def ready(count):
                alive = f'adaptive_batching_workers{{endpoint="/predict",state="alive"}} {count}.0'
                while True:
                    async with session.get(f"{url}/metrics") as metrics:
                        if alive.encode() in await metrics.read():
                            return

            async def visitor(number):
                while not done.is_set():
                    async with session.post(f"{url}/predict", json=number) as response:
                        answers.append((response.status, await response.json() == 2 * number))

            await ready(2)
            visitors = [asyncio.create_task(visitor(number)) for number in range(4)]
            await until(lambda: len(answers) > 20)
            workers[0].send_signal(signal.SIGTERM)
            assert await workers[0].wait() == 0
            await ready(1)
            done.set()
            await asyncio.gather(*visitors)
            assert set(answers) == {(200, True)}
            process.send_signal(signal.SIGTERM)
        assert process.returncode == 0
    finally:
        for each in workers:
            if each.returncode is None:
                each.kill()
                await each.wait()
