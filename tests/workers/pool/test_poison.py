"""Items that make batches raise or workers die, in real processes: the others get their answers."""

import asyncio
import os

import pytest

from adaptive_batching.core import Limits, Reason, Verdict
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import Quarantined, WorkerLost
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.factory import make_workers
from tests.marshal.client import client_of

RAISES, EXITS = -1, -2


class Delicate:
    """Doubles numbers; one number is too much for it, another for its process."""

    def __call__(self, numbers):
        if EXITS in numbers:
            os._exit(9)
        if RAISES in numbers:
            raise ArithmeticError(RAISES)
        return [2 * number for number in numbers]


async def endings(numbers, workers=1, **options):
    """What becomes of numbers that come together, and the dispatcher's counts."""
    pool = make_workers(Delicate, Processes(workers))
    async with Dispatcher(pool, Limits(), **options) as dispatcher:
        calls = (dispatcher.submit(number) for number in numbers)
        ends = await asyncio.gather(*calls, return_exceptions=True)
        return ends, dispatcher.stats(), pool.health.restarts


async def test_one_that_makes_its_batch_raise():
    """It gets the error, with the traceback of its worker; the process lives on."""
    ends, stats, restarts = await endings([*range(20), RAISES], idempotent=True)
    *answers, error = ends
    assert answers == [2 * number for number in range(20)]
    assert (type(error), error.args) == (ArithmeticError, (RAISES,))
    assert restarts == 0
    assert stats.releases[Reason.BISECT] <= 2 * 5


async def test_one_that_ends_its_process():
    """It is refused by name after three deaths, and no innocent item has noticed one."""
    ends, stats, _ = await endings([*range(20), EXITS], workers=2, idempotent=True)
    *answers, error = ends
    assert answers == [2 * number for number in range(20)]
    assert isinstance(error, Quarantined)
    assert "exited with 9" in str(error)
    assert stats.verdicts[Verdict.QUARANTINED] == 1


async def test_a_pool_of_one_survives_a_lone_killer():
    """Two deaths, and the worker is there again for the next."""
    pool = make_workers(Delicate, Processes(1))
    async with (
        Dispatcher(pool, Limits(), idempotent=True) as dispatcher,
    ):
        with pytest.raises(Quarantined):
            await dispatcher.submit(EXITS)
        assert await dispatcher.submit(4) == 8
        assert pool.health.restarts == 2
        assert pool.health.crash_loop is None


async def test_a_killer_that_comes_again_and_again(caplog):
    """Its deaths don't add up: a worker that answers in between is started soon after each."""
    async with Dispatcher(make_workers(Delicate, Processes(1)), Limits(), idempotent=True) as used:
        for number in range(3):
            with pytest.raises(Quarantined):
                await used.submit(EXITS)
            assert await used.submit(number) == 2 * number
    pauses = [text.split()[-2:] for text in caplog.messages if "another one is started" in text]
    assert [unit for _, unit in pauses] == ["ms"] * 6


async def test_without_idempotent_a_death_is_everybodys():
    """To run anything twice is not ours to decide."""
    ends, stats, _ = await endings([1, 2, EXITS])
    assert {type(end) for end in ends} == {WorkerLost}
    assert stats.releases[Reason.BISECT] == 0


async def test_a_service_tells_who_is_to_blame():
    """500 for the guilty, each under a code of its own, 200 for the others; metrics say so."""
    service = Service()
    service.endpoint("/", max_batch_size=8, workers=2, idempotent=True)(Delicate)
    async with client_of(service) as client:
        bodies = [b"1", b"2", str(RAISES).encode(), str(EXITS).encode(), b"3"]
        answers = await asyncio.gather(*(client.post("/", body) for body in bodies))
        assert [answer.status for answer in answers] == [200, 200, 500, 500, 200]
        assert [answer.error for answer in answers[2:4]] == ["handler_error", "quarantined"]
        page = (await client.get("/metrics")).body.decode()
        assert 'adaptive_batching_bisect_total{endpoint="/",result="quarantined"} 1.0' in page
