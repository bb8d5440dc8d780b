"""Endpoints that keep keys apart, and requests that bring several items."""

import asyncio
import subprocess
import sys

import aiohttp
import msgspec
import numpy as np
import pytest

from adaptive_batching import Pipeline, SharedWorkers, Stage
from adaptive_batching.core import Dispatch, JobOutcome, Reason, Shed, ShedReason
from adaptive_batching.errors import (
    BatchKeyError,
    InvalidItem,
    JobTooLarge,
    MalformedBody,
    QueueFull,
)
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.payloads.arrays import npy
from adaptive_batching.payloads.codecs import Codec
from adaptive_batching.payloads.lists import cut
from tests.marshal.client import client_of, until
from tests.marshal.service.mounted.test_mounting import EVERYWHERE


class Text(msgspec.Struct):
    text: str
    model: str = "a"


class Batches:
    """A service that says which items were together."""

    def __init__(self, **how):
        self.service = Service()
        self.seen = []

        @self.service.endpoint("/double", **how)
        async def together(items):
            self.seen.append(items)
            return items


async def posted(url, *sent):
    """The JSON of the answers to bodies with headers that are sent at once."""
    async with aiohttp.ClientSession() as session:

        async def one(value, headers):
            async with session.post(f"{url}/double", json=value, headers=headers) as answer:
                assert answer.status == 200
                return await answer.json()

        return await asyncio.gather(*(one(value, headers) for value, headers in sent))


@EVERYWHERE
async def test_keys_keep_requests_apart(place):
    """Those of a header, wherever the endpoint is mounted; without it they are together, too."""
    batches = Batches(key="X-Model", max_batch_size=2, policy="window:1h")
    headers = [{"X-Model": "a"}, {"X-Model": "b"}, {}] * 2
    async with place(batches) as url:
        assert await posted(url, *zip(range(6), headers, strict=True)) == [*range(6)]
    assert sorted(map(sorted, batches.seen)) == [[0, 3], [1, 4], [2, 5]]


async def test_keys_of_items():
    """A function sees the item that the handler will see; what it can't be asked of is refused."""
    service, seen = Service(), []

    @service.endpoint("/text", key=lambda item: item.model, max_batch_size=2, policy="window:1h")
    async def texts(items: list[Text]) -> list[int]:
        seen.append({item.model for item in items})
        return [len(item.text) for item in items]

    @service.endpoint("/odd", key=lambda item: item)
    async def odd(items):
        return items

    async with client_of(service) as client:
        sent = [{"text": "x" * number, "model": "ab"[number % 2]} for number in range(4)]
        *answers, ours, ours_too = await asyncio.gather(
            *(client.post("/text", each) for each in sent),
            service["/text"](Text("xyz", "c")),
            service["/text"]({"text": "xyz", "model": "c"}),
        )
        assert ([answer.json for answer in answers], ours, ours_too) == ([0, 1, 2, 3], 3, 3)
        assert (await client.post("/text", {"text": 1})).json["path"] == "$.text"
        unhashable = await client.post("/odd", [1])
        assert (unhashable.status, unhashable.error) == (500, "bad_key")
    assert sorted(map(sorted, seen)) == [["a"], ["b"], ["c"]]


async def test_items_without_a_key_are_counted():
    """Once, by the outcome that their answer has, as those over which `cost` fails."""
    service = Service()

    def key(item):
        if item.model == "raises":
            raise LookupError(item.model)
        if item.model == "exits":
            sys.exit(3)
        return [] if item.model == "odd" else item.model

    def cost(item):
        return 1 / len(item.text)

    async def texts(items: list[Text]) -> list[int]:
        return [len(item.text) for item in items]

    service.endpoint("/one", key=key, cost=cost)(texts)
    service.endpoint("/many", key=key, many=True)(texts)
    service.add_pipeline("/staged", Pipeline([Stage(texts, max_batch_size=2)]), key=key)
    sent = [{"text": "x", "model": model} for model in ("a", "raises", "odd", "exits")]
    sent += [{"text": 1}, b"?"]
    async with client_of(service) as client:
        for label, dispatcher in client.running.dispatchers.items():
            path = label.partition(":")[0]  # that of a stage has its name as well
            bodies = [[each] for each in sent[:-1]] + sent[-1:] if path == "/many" else sent
            answers = [await client.post(path, body) for body in bodies]
            assert [answer.status for answer in answers] == [200, 500, 500, 500, 422, 400]
            assert {answer.error for answer in answers[1:4]} == {"bad_key"}
            if path == "/many":
                rest = await client.post(path, [sent[1], sent[0], sent[0]])
                assert (rest.status, rest.error) == (500, "bad_key")
            requests = dispatcher.stats().requests
            done = 2 if path == "/many" else 3  # of what is no list, no item was to be had
            failed = 6 if path == "/many" else 3  # those of a list with all of its items
            assert (requests[JobOutcome.DONE], requests[JobOutcome.FAILED]) == (done, failed)
            assert sum(requests.values()) == done + failed
        said = "^key: expected a key for each item from .*key, which raised LookupError: raises$"
        with pytest.raises(BatchKeyError, match=said) as raised:
            await service["/one"](Text("x", "raises"))
        assert isinstance(raised.value.__cause__, LookupError)
        assert (await client.post("/one", {"text": ""})).status == 500  # it has a key, and no cost
        assert client.running.dispatchers["/one"].stats().requests[JobOutcome.FAILED] == 5


@pytest.fixture(scope="module")
def several():
    service = Service("several")

    @service.endpoint(
        "/lengths",
        many=True,
        max_batch_size=4,
        max_queue=20,
        codec=["json", "msgpack"],
        examples=[Text("a")],
    )
    async def lengths(items: list[Text]) -> list[int | Exception]:
        return [ValueError("secret") if each.text == "bad" else len(each.text) for each in items]

    @service.endpoint("/rows", many=True, codec=["npy", "json"], max_batch_size=2)
    async def rows(items):
        return [np.asarray(row) * 2 for row in items]

    return service


async def test_a_list_in_and_a_list_out(several):
    """Over as many batches as it takes, in order; an empty list has an empty answer."""
    async with client_of(several) as client:
        sent = [{"text": "x" * number} for number in range(10)]
        assert (await client.post("/lengths", sent)).json == [*range(10)]
        assert client.stats("/lengths").batches >= 3
        assert (await client.post("/lengths", [])).json == []
        packed = msgspec.msgpack.encode(sent)
        kind = {"Content-Type": "application/msgpack"}
        answer = await client.post("/lengths", packed, headers=kind)
        assert msgspec.msgpack.decode(answer.body) == [*range(10)]
        assert await several["/lengths"]([Text("ab"), {"text": "c"}]) == [2, 1]

        array = np.arange(15, dtype="float32").reshape(3, 5)
        for order in "CF":
            body = npy.dump(np.asarray(array, order=order))
            answer = await client.post("/rows", body)
            np.testing.assert_array_equal(npy.load(answer.body), array * 2)
        assert len(npy.load((await client.post("/rows", npy.dump(array[:0]))).body)) == 0
        ragged = {"Content-Type": "application/json"}
        assert (await client.post("/rows", [[1], [2, 3]], headers=ragged)).json == [[2], [4, 6]]
        as_array = {**ragged, "Accept": "application/x-npy"}
        answer = await client.post("/rows", [[1], [2, 3]], headers=as_array)
        assert (answer.status, answer.error) == (500, "bad_batch_result")


async def test_the_first_item_that_fails_is_told(several):
    """By its index; the items before and behind it do not matter, and one outcome is counted."""
    async with client_of(several) as client:
        good = [{"text": "x"}] * 6
        wrong = await client.post("/lengths", [*good, {"text": 3}, {"text": "bad"}])
        assert (wrong.status, wrong.json["path"]) == (422, "$[6].text")
        failed = await client.post("/lengths", [*good, {"text": "bad"}, {"text": 3}])
        assert (failed.status, failed.error, failed.json["path"]) == (500, "handler_error", "$[6]")
        assert "secret" not in failed.body.decode()
        for body, status, code in (
            ({"text": "x"}, 422, "invalid_item"),
            (b"[1,", 400, "malformed"),
            (b'{"text": "x"', 400, "malformed"),
            ([{"text": "x"}] * 21, 413, "too_many_items"),
        ):
            answer = await client.post("/lengths", body)
            assert (answer.status, answer.error) == (status, code)
        assert "at most 20 items" in answer.json["message"]
        assert client.running.endpoints["/lengths"].responses == {422: 2, 500: 1, 400: 2, 413: 1}
        with pytest.raises(InvalidItem, match=r"\$\[1\].text: expected str, got int"):
            await several["/lengths"]([Text("a"), {"text": 3}])
        with pytest.raises(InvalidItem, match=r"\$\[1\]: got object, which can't be written"):
            await several["/lengths"]([Text("a"), object()])
        with pytest.raises(InvalidItem, match="expected a list of items, got dict"):
            await several["/lengths"]({"text": "a"})
        with pytest.raises(ValueError, match="secret"):
            await several["/lengths"]([Text("a"), Text("bad"), {"text": 3}])
        assert not client.stats("/lengths").queued


async def test_what_is_refused_is_refused_whole():
    """Items that had found room leave the queue when one behind them finds none."""
    service, gate = Service(), asyncio.Event()

    @service.endpoint("/slow", many=True, max_batch_size=1, max_queue=4)
    async def slow(items):
        await gate.wait()
        return items

    async with client_of(service) as client:
        first = asyncio.create_task(client.post("/slow", [1, 2, 3]))
        await until(lambda: client.stats("/slow").queued == 2)
        second = await client.post("/slow", [4, 5, 6])
        assert (second.status, second.error) == (503, "queue_full")
        with pytest.raises(QueueFull):
            await service["/slow"]([4, 5, 6, 7])
        assert client.stats("/slow").queued == 2
        gate.set()
        assert (await first).json == [1, 2, 3]
        requests = client.stats("/slow").requests
        assert (requests[JobOutcome.DONE], requests[JobOutcome.QUEUE_FULL]) == (3, 7)
        assert sum(requests.values()) == 10


class OneThenNone:
    """A policy that lets one item leave alone and turns the next one away."""

    def decide(self, situation):
        if situation.items == 3:
            return Dispatch(1, Reason.IDLE)
        return Shed([situation.head], ShedReason.HOPELESS)

    def observe(self, batch):
        pass


async def test_a_list_that_can_not_be_answered_any_more_ends_at_once():
    """When one item is shed the others leave the queue, and one that runs is not waited for."""
    service, gate = Service(), asyncio.Event()

    @service.endpoint("/slow", many=True, workers=2, policy=OneThenNone(), max_batch_size=4)
    async def slow(items):
        await gate.wait()
        return items

    async with client_of(service) as client:
        answer = await client.post("/slow", [1, 2, 3])
        assert (answer.status, answer.error) == (503, "overloaded")
        assert not client.stats("/slow").queued
        gate.set()
        await until(lambda: sum(client.stats("/slow").requests.values()) == 3)
        requests = client.stats("/slow").requests
        assert (requests[JobOutcome.SHED], requests[JobOutcome.DONE]) == (2, 1)


async def test_items_of_a_list_whose_deadline_comes_are_all_counted_by_that():
    """Those whose batch runs as well as those that wait, each once; the request ends with them."""
    service, gate = Service(), asyncio.Event()

    @service.endpoint("/slow", many=True, max_batch_size=2, max_latency="20ms", policy="greedy")
    async def slow(items):
        await gate.wait()
        return items

    async with client_of(service) as client:
        answer = await client.post("/slow", [1, 2, 3, 4])
        assert (answer.status, answer.error) == (504, "deadline_exceeded")
        gate.set()
        await until(lambda: not client.stats("/slow").running)
        requests = client.stats("/slow").requests
        assert (requests[JobOutcome.EXPIRED], sum(requests.values())) == (4, 4)


async def test_lists_of_endpoints_that_share_workers_are_refused_whole_too():
    """Each item counts, with the endpoint to which it was sent."""
    service, gate, shared = Service(), asyncio.Event(), SharedWorkers()

    async def slow(items):
        await gate.wait()
        return items

    for path in ("/one", "/two"):
        how = {"workers": shared, "many": True, "max_batch_size": 1, "max_queue": 3}
        service.endpoint(path, **how)(slow)
    async with client_of(service) as client:
        first = asyncio.create_task(client.post("/one", [1, 2, 3]))
        await until(lambda: client.stats("/one").queued == 2)
        refused = await client.post("/one", [4, 5, 6])
        assert (refused.status, refused.error) == (503, "queue_full")
        gate.set()
        assert (await first).json == [1, 2, 3]
        requests = client.stats("/one").requests
        assert (requests[JobOutcome.DONE], requests[JobOutcome.QUEUE_FULL]) == (3, 3)
        assert not sum(client.stats("/two").requests.values())


async def test_the_document_describes_lists(several):
    """The list, its longest length, and examples that are lists."""
    async with client_of(several) as client:
        document = (await client.get("/openapi.json")).json
    operation = document["paths"]["/lengths"]["post"]
    body = operation["requestBody"]["content"]["application/json"]
    assert (body["schema"]["type"], body["schema"]["maxItems"]) == ("array", 20)
    assert body["examples"]["example-1"]["value"] == [{"text": "a", "model": "a"}]
    answered = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert answered == {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK, Codec.NPY])
def test_hostile_lists_cost_little(codec):
    """Of more items than may be, nothing is made, however small each is."""
    size = 2**22
    bodies = {
        Codec.JSON: b"[" + b"1," * size + b"1]",
        Codec.MSGPACK: b"\xdd" + size.to_bytes(4, "big") + bytes(size),
        Codec.NPY: npy.dump(np.zeros(size, "uint8")),
    }
    with pytest.raises((JobTooLarge, MalformedBody)):
        cut(codec, bodies[codec], 100)


async def nothing(item):
    """The key of no item."""


def one_by_one(item):
    """The key of no item either."""
    yield item


async def test_mistakes():
    """They are found when the endpoint is registered."""
    for how, message in (
        ({"key": 5}, "key: expected a function or the name of a header, got 5"),
        ({"key": "two words"}, "key: expected the name of a header"),
        (
            {"key": nothing},
            "key: expected a function that returns the key, got nothing, .* awaited",
        ),
        (
            {"key": one_by_one},
            "key: expected a function that returns the key, got one_by_one, .* yields",
        ),
        ({"key": "X", "workers": SharedWorkers()}, "key: expected none with SharedWorkers"),
        ({"examples": 5}, "examples: expected a list of items, got 5"),
        ({"many": True, "codec": "raw"}, "codec: expected json, msgpack or npy .* got raw"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            Batches(**how)
    service = Batches().service
    async with service.running():
        with pytest.raises(TypeError, match="key: expected none, for no header is the key of /d"):
            await service["/double"](1, key="a")
    service = Batches(key="X-Model").service
    async with service.running():
        for key in (5, "x" * 257):
            with pytest.raises(ValueError, match="key: expected a text of at most 256 characters"):
                await service["/double"](1, key=key)


STARTED = """
import asyncio, sys
from adaptive_batching.marshal.service.service import Service

service = Service("lists")

@service.endpoint("/plain")
@service.endpoint("/many", many=True)
async def double(items):
    return [2 * item for item in items]

async def main():
    before = "numpy" in sys.modules
    async with service.running():
        print(before, "numpy" in sys.modules)

asyncio.run(main())
"""


def test_what_reads_lists_is_imported_before_a_request_waits_for_it():
    """NumPy takes a third of a second, in which the loop would answer nothing."""
    command = [sys.executable, "-c", STARTED]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == "False True\n"
