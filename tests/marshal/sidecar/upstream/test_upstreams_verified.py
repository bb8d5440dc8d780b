"""What is known of a server beforehand, and whether it answers batches as it answers requests."""

import asyncio
import json

import pytest

from adaptive_batching.wire.open_inference import OpenInference
from tests.marshal.admin.test_sidecar import samples
from tests.marshal.sidecar.peers.scripted import OK, predict, scripted
from tests.workers.conditions import until


async def says(exchange, value, status=200):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    head = OK.replace(b"200", b"%d" % status) + b"Content-Length: %d\r\n\r\n" % len(body)
    await exchange.write(head + body)


async def doubles_by_position(exchange):
    """A model whose answer to one depends on who was asked for beside it."""
    instances = json.loads(exchange.body)["instances"]
    await says(exchange, {"predictions": [2 * n + at for at, n in enumerate(instances)]})


async def crowd(client, *requests):
    """Requests that come while the server is busy, again and again."""
    for _ in range(3):
        await asyncio.gather(*map(client.predict, requests))


async def test_a_model_that_mixes_its_items_up(before, caplog):
    """It is found out, said, and gets no batches of that kind any more."""
    async with scripted(doubles_by_position) as server:
        client = await before(servers=[server.url], more={"verify": 1.0})
        seen = await samples(client)
        while not seen["upstream_verified_total", "models", "different"]:
            await crowd(client, *range(1, 9))
            seen = await samples(client)
        assert seen["upstream_keys_apart", "models"] == 1
        assert "was answered otherwise in a batch than alone" in caplog.text
        before_that = len(server.exchanges)
        answers = await asyncio.gather(*map(client.predict, range(8)))
        assert [answer["predictions"] for _, answer, _ in answers] == [[2 * n] for n in range(8)]
        assert max(map(len, server.bodies[before_that:])) == 1


async def ask(client, query, **headers):
    url = f"{client.url}/v1/models/m:predict?{query}"
    async with client.session.post(url, json={"instances": [1]}, headers=headers) as response:
        return (await response.json())["predictions"]


async def test_a_path_stays_apart_whatever_clients_make_up(before, caplog):
    """No query, credential or number of other keys brings it back, nor fills the log."""

    async def script(exchange):
        if b"?short" in exchange.head:
            instances = json.loads(exchange.body)["instances"]
            await says(exchange, {"predictions": instances[:1]})
        else:
            await doubles_by_position(exchange)

    async with scripted(script) as server:
        client = await before(servers=[server.url], more={"verify": 1.0}, policy="window:20ms")
        for number in range(5):
            pair = (ask(client, f"short={number}&{'a' * 300}") for _ in range(2))
            await asyncio.gather(*pair)
        lines = [each.message for each in caplog.records if "alone for a while" in each.message]
        assert len(lines) == 1
        assert lines[0].startswith("'/v1/models/m:predict?short=0&aaa")
        assert len(lines[0]) < 500
        upstreams = client.running.runtimes.find("/").upstreams
        while not upstreams.verified.different:
            await asyncio.gather(*(ask(client, "") for _ in range(4)))
        others = [{"Authorization": "Bearer b"}, {}, {}]
        answers = await asyncio.gather(*(ask(client, "new", **each) for each in others))
        assert answers == [[2]] * 3
        lines = [each.message for each in caplog.records if "for this path" in each.message]
        assert len(lines) == 1


async def test_a_model_that_is_well(before):
    """Batches go on, and the samples are counted."""
    async with scripted(predict) as server:
        client = await before(servers=[server.url], more={"verify": 0.5})
        await crowd(client, *range(16))
        await until(lambda: client.running.runtimes.find("/").upstreams.verified.same)
        seen = await samples(client)
        assert seen["upstream_verified_total", "models", "different"] == 0
        assert seen["upstream_state", "models", "in", server.url] == 1
        assert seen["upstream_state", "models", "ejected", server.url] == 0
        assert max(map(len, server.bodies)) > 1


async def test_samples_are_sent_one_at_a_time(before):
    """Who would have been one meanwhile, or beside another of his batch, is counted as skipped."""
    async with scripted(predict) as server:
        client = await before(servers=[server.url], more={"verify": 1.0})
        verified = client.running.runtimes.find("/").upstreams.verified
        while not verified.skipped:
            await crowd(client, *range(8))
        seen = await samples(client)
        assert seen["upstream_verified_total", "models", "skipped"] == verified.skipped
        shared = sum(len(body) for body in server.bodies if len(body) > 1)
        assert verified.same + verified.skipped <= shared


async def test_what_a_file_says_is_known(before):
    """The server isn't asked before the first request."""
    async with scripted(predict) as server:
        known = [(size, 0.01 + 0.001 * size, 0.0) for size in (1, 2, 4, 8, 16)]
        client = await before(servers=[server.url], form=OpenInference(), more={"rehearsed": known})
        stats = client.running.dispatchers["models"].stats()
        assert stats.fixed + stats.per_item * 8 == pytest.approx(0.018, rel=0.05)
        assert not server.exchanges
