"""Faults around a proxy that shares batches, by their numbers in the reliability plan."""

import asyncio
import time

import aiohttp

from tests.marshal.sidecar.peers.raw import connect
from tests.marshal.sidecar.peers.scripted import scripted
from tests.marshal.sidecar.test_runner import running
from tests.workers.conditions import until

ASK = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nContent-Length: 18\r\n\r\n"


class Slow:
    """Answers after a while, one batch after the other as its only worker would.

    Attributes:
        seconds: That a batch takes.
        batches: How many there were.
    """

    def __init__(self, seconds):
        self.seconds = seconds
        self.batches = 0

    async def __call__(self, exchange):
        await asyncio.sleep(self.seconds)
        self.batches += 1
        await exchange.predict()


async def test_f9_a_client_that_resets_as_its_answer_comes(model, before):
    """Before, in and after the turn in which it is written: neighbours are answered, no error."""
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    client = await before()
    for turns in range(20):
        model.gate.clear()
        seen = len(model.batches)
        _, leaving = await connect(client.url)
        leaving.write(ASK + b'{"instances": [1]}')
        await until(lambda seen=seen: len(model.batches) > seen)
        staying = asyncio.ensure_future(client.predict(2))
        model.gate.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        leaving.transport.abort()
        assert (await staying)[:2] == (200, {"predictions": [4]})
    assert errors == []


async def test_f15_five_times_what_the_server_can(before):
    """It is kept busy with what will be in time, the others are refused; then all is as before."""
    of_a_batch, lasts = 4, 2.0
    script = Slow(0.1)
    async with scripted(script) as server:
        client = await before(
            servers=[server.url], policy="cork", max_batch_size=of_a_batch, max_latency=1.5
        )
        for _ in range(3):
            await client.predict(0)
        asked = []
        begin, before_that = time.monotonic(), script.batches
        while (passed := time.monotonic() - begin) < lasts:
            due = int(passed * 5 * of_a_batch / script.seconds) - len(asked)
            asked += [asyncio.ensure_future(client.predict(1)) for _ in range(due)]
            await asyncio.sleep(0.01)
        told = await asyncio.gather(*asked)
        capacity = (script.batches - before_that) * of_a_batch
        again, *_ = await client.predict(1)
    statuses = [status for status, *_ in told]
    assert statuses.count(200) >= 0.5 * capacity
    assert {200, 503} <= {*statuses} <= {200, 503, 504}
    assert again == 200


async def test_f16_one_request_at_an_idle_server_does_not_wait(before):
    """Neither for company nor for its promise to run out."""
    async with scripted(Slow(0.01)) as server:
        client = await before(servers=[server.url], policy="cork", max_latency=3600.0)
        for _ in range(12):
            assert (await client.predict(1))[0] == 200
            await asyncio.sleep(0.02)


async def test_f17_a_server_that_becomes_twenty_times_as_slow(before):
    """And as fast again: what is learned follows within some batches, and stays sensible."""
    script = Slow(0.01)
    async with scripted(script) as server:
        client = await before(servers=[server.url], policy="cork")
        stats = client.running.dispatchers["models"].stats

        async def learned(wrong):
            """How many batches it takes until that is not so any more."""
            begin = script.batches
            while wrong(stats().fixed + stats().per_item):
                await asyncio.gather(*(client.predict(item) for item in range(3)))
                assert stats().fixed >= 0
                assert stats().per_item >= 0
            return script.batches - begin

        await learned(lambda seconds: not seconds)
        script.seconds = 0.2
        assert await learned(lambda seconds: seconds < 0.16) <= 15
        script.seconds = 0.01
        assert await learned(lambda seconds: seconds > 0.12) <= 60


async def test_f18_the_wall_clock_jumps(model, before, monkeypatch):
    """An hour to and fro while requests wait: nobody is early or late for it."""
    client = await before(max_latency=600.0)
    really = time.time  # noqa: TID251  the one that jumps
    for hours in (1, -1, 0):
        model.gate.clear()
        seen = len(model.batches)
        asking = [
            asyncio.ensure_future(client.predict(item, X_Request_Timeout_Ms="300000"))
            for item in range(3)
        ]
        await until(lambda seen=seen: len(model.batches) > seen)
        monkeypatch.setattr(time, "time", lambda hours=hours: really() + 3600 * hours)
        model.gate.set()
        assert [status for status, *_ in await asyncio.gather(*asking)] == [200] * 3


async def test_f20_no_more_files_can_be_opened(model, tmp_path):
    """Those who are in are answered, those who come are dropped, and it is over when they leave."""
    limited = ("sh", "-c", 'ulimit -n 64; exec "$@"', "sh")
    log = tmp_path / "log"
    with log.open("wb") as errors:
        async with (
            running(f"--upstream={model.url}", start=limited, stderr=errors) as (process, url),
            aiohttp.ClientSession() as session,
        ):
            predict = f"{url}/v1/models/m:predict"
            writers = []
            for turn in range(200):
                if turn % 50 == 0:
                    assert await doubled(session, predict) == 42
                _, writer = await connect(url)
                writers.append(writer)
            assert await doubled(session, predict) == 42
            for writer in writers:
                writer.close()
            await answered_anew(predict)
            assert process.returncode is None
    assert len(log.read_text().splitlines()) < 20


async def doubled(session, url):
    async with session.post(url, json={"instances": [21]}) as response:
        return (await response.json())["predictions"][0]


async def answered_anew(url):
    """Come again until a client that was not connected yet is answered."""
    while True:
        try:
            async with aiohttp.ClientSession() as session:
                assert await doubled(session, url) == 42
                return
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.02)
