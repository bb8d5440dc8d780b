"""Endpoints that the program around their service calls without HTTP."""

import asyncio

import numpy as np
import pytest

from adaptive_batching.errors import DeadlineExceeded, InvalidItem, NoWorkers, WrongEventLoop
from adaptive_batching.marshal.service.service import Service
from tests.marshal.client import client_of
from tests.marshal.service import typed


@pytest.fixture
async def client():
    async with client_of(typed.service) as client:
        yield client


async def test_a_call_shares_its_batch_with_http(client):
    """Objects come and go, of the declared types, through the queue in which requests wait."""
    digits = typed.service["/digits"]
    before = client.stats("/digits").batches
    ours, plain, theirs, wrong = await asyncio.gather(
        digits(typed.Image([1.0, 2.0], "ours")),
        digits({"pixels": [4]}),
        client.post("/digits", {"pixels": [3], "name": "theirs"}),
        digits({"pixels": ["3"]}),
        return_exceptions=True,
    )
    assert (ours, plain) == (typed.Label(3, "ours"), typed.Label(4, ""))
    assert theirs.json == {"digit": 3, "name": "theirs"}
    assert isinstance(wrong, InvalidItem)
    assert wrong.path == "$.pixels[0]"
    assert client.stats("/digits").batches == before + 1


async def test_every_kind_of_item(client):
    """Arrays, bytes, text, models of pydantic, and what goes through a pipeline."""
    service = typed.service
    array = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(await service["/arrays"](array), array * 2)
    assert await service["/lengths"](b"abc") == 3
    assert await service["/upper"]("abc") == "ABC"
    assert await service["/people"](typed.Person(name="A", age=3)) == typed.Person(name="A", age=4)
    assert await service["/count"]("a b") == 2
    with pytest.raises(InvalidItem, match="got object, which can't be written as json"):
        await service["/count"](object())


async def test_a_deadline_holds():
    """A call may ask for less time than the endpoint promises."""
    service, gate = Service(), asyncio.Event()

    @service.endpoint("/slow", max_latency=60.0)
    async def slow(items):
        await gate.wait()
        return items

    async with service.running_workers():
        with pytest.raises(DeadlineExceeded):
            await service["/slow"](1, max_latency=0.01)
        gate.set()
        assert await service["/slow"](1) == 1


async def test_services_that_do_not_run_here():
    """The error says what is missing, and so does that for a path which is none."""
    service = Service()

    @service.endpoint("/a")
    async def same(items):
        return items

    with pytest.raises(KeyError, match=r"expected that of an endpoint \(/a\), got '/b'"):
        service["/b"]
    for _ in range(2):
        with pytest.raises(NoWorkers, match="does not run in this process: call it within"):
            await service["/a"](1)
        async with service.running():
            assert await service["/a"](1) == 1
            with pytest.raises(WrongEventLoop, match="runs on another event loop: call it there"):
                await asyncio.to_thread(asyncio.run, service["/a"](1))
