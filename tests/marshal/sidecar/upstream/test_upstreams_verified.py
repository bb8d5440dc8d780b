"""What is known of a server beforehand, and whether it answers batches as it answers requests."""

import asyncio
import json

import pytest

from adaptive_batching.marshal.sidecar.upstream import statistics
from adaptive_batching.wire.open_inference import OpenInference
from tests.marshal.sidecar.scripted import OK, predict, refusing, scripted, url_of
from tests.marshal.sidecar.test_admin import samples
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


async def test_a_model_that_is_well(before):
    """Batches go on, and the samples are counted."""
    async with scripted(predict) as server:
        client = await before(servers=[server.url], more={"verify": 0.5})
        await crowd(client, *range(16))
        await until(lambda: client.running.relays.find("/").upstreams.verified.same)
        seen = await samples(client)
        assert seen["upstream_verified_total", "models", "different"] == 0
        assert seen["upstream_state", "models", "in", server.url] == 1
        assert seen["upstream_state", "models", "ejected", server.url] == 0
        assert max(map(len, server.bodies)) > 1


async def test_samples_are_sent_one_at_a_time(before):
    """Who would have been one meanwhile, or beside another of his batch, is counted as skipped."""
    async with scripted(predict) as server:
        client = await before(servers=[server.url], more={"verify": 1.0})
        verified = client.running.relays.find("/").upstreams.verified
        while not verified.skipped:
            await crowd(client, *range(8))
        seen = await samples(client)
        assert seen["upstream_verified_total", "models", "skipped"] == verified.skipped
        shared = sum(len(body) for body in server.bodies if len(body) > 1)
        assert verified.same + verified.skipped <= shared


def durations(infer):
    """As Triton says them: nanoseconds summed, and of how many."""
    part = {"count": 10, "ns": 10_000_000}
    return {"compute_input": part, "compute_output": part, "compute_infer": infer}


STATISTICS = {
    "model_stats": [
        {"name": "idle", "version": "1", "execution_count": 0, "batch_stats": []},
        {
            "name": "digits",
            "version": "1",
            "execution_count": 30,
            "batch_stats": [
                {"batch_size": size, **durations({"count": 10, "ns": 10_000_000 * (2 + size)})}
                for size in (1, 2, 4, 8, 16)
            ],
        },
    ]
}


class Triton:
    """A server that knows how long its batches took, and batches one of its models itself."""

    async def __call__(self, exchange):
        path = exchange.head.split()[1]
        if path == b"/v2/models/stats":
            await says(exchange, STATISTICS)
        elif path == b"/v2/models/digits/config":
            batching = {"max_queue_delay": 1}
            about = {"name": "digits", "max_batch_size": 16, "dynamic_batching": batching}
            await says(exchange, about)
        else:
            await says(exchange, {"error": "unknown"}, 404)


async def test_triton_tells_what_its_batches_took(before, caplog):
    """The first request finds a model that is learned already; a second batcher is warned of."""
    async with scripted(Triton()) as server:
        client = await before(servers=[server.url], form=OpenInference())
        stats = client.running.dispatchers["models"].stats()
        assert stats.fixed + stats.per_item * 16 == pytest.approx(0.020, rel=0.05)
        assert stats.fixed + stats.per_item == pytest.approx(0.005, rel=0.25)
    assert "batches 'digits' itself" in caplog.text
    assert "'idle'" not in caplog.text


@pytest.mark.parametrize(("ours", "warned"), [(16, False), (17, True)])
async def test_batches_that_triton_would_refuse_are_warned_of(before, caplog, ours, warned):
    """They would be sent twice each time: whole, and in parts."""
    async with scripted(Triton()) as server:
        await before(servers=[server.url], form=OpenInference(), max_batch_size=ours)
    assert ("takes at most 16 items for 'digits'" in caplog.text) == warned


async def test_a_server_that_starts_later_is_warned_of_as_well(before, caplog, monkeypatch):
    """As in a pod, whose containers start at the same time."""
    monkeypatch.setattr(statistics, "_AGAIN", 0.02)
    with refusing() as reserved:
        await before(servers=[url_of(reserved)], form=OpenInference())
        async with scripted(Triton(), sock=reserved):
            await until(lambda: "batches 'digits' itself" in caplog.text)


def of_one_batch(seconds):
    """Statistics of a single batch."""
    batch = {"batch_size": 1, "compute_infer": {"count": 1, "ns": seconds}}
    return {"model_stats": [{"name": "digits", "batch_stats": [batch]}]}


@pytest.mark.parametrize(
    "answer",
    [
        {"model_stats": 3},
        ["no"],
        {"model_stats": []},
        of_one_batch(10**400),
        of_one_batch(-1),
        b'{"model_stats": [{"name": "\xff"}]}',
        b'{"model_stats": [], "more": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
)
async def test_a_server_without_statistics(before, answer):
    """Nothing is known, and nothing is wrong with that."""

    async def script(exchange):
        await says(exchange, answer)

    async with scripted(script) as server:
        client = await before(servers=[server.url], form=OpenInference())
        assert client.running.dispatchers["models"].stats().fixed == 0


async def test_what_a_file_says_is_known(before):
    """And then the server isn't asked."""
    async with scripted(Triton()) as server:
        known = [(size, 0.01 + 0.001 * size) for size in (1, 2, 4, 8, 16)]
        client = await before(servers=[server.url], form=OpenInference(), more={"rehearsed": known})
        stats = client.running.dispatchers["models"].stats()
        assert stats.fixed + stats.per_item * 8 == pytest.approx(0.018, rel=0.05)
        assert not server.exchanges
