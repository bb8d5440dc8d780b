"""Whoever comes, and however many: what is not held, is refused at once and harms nobody."""

import asyncio
import gzip
import shutil
from contextlib import AsyncExitStack

import aiohttp
import pytest
from yarl import URL

from adaptive_batching.marshal.config.limits import Bounds
from tests.marshal.sidecar.peers.raw import connect
from tests.workers.conditions import until


def queued(client):
    return client.running.dispatchers["models"].stats().queued


def held(client):
    return client.running.metrics.held_bytes()


async def stuck(model, client, *instances):
    """Requests of which the first is at the server, which does not answer, and the others wait."""
    model.gate.clear()
    tasks = [asyncio.ensure_future(client.predict(instances[0]))]
    await until(lambda: model.batches)
    tasks += [asyncio.ensure_future(client.predict(each)) for each in instances[1:]]
    await until(lambda: queued(client) == len(instances) - 1)
    return tasks


async def test_f14_a_full_queue_refuses_at_once(model, before):
    """Whoever is in keeps his place, and the next one knows when to come again."""
    client = await before(more={"max_queue": 2})
    tasks = await stuck(model, client, 0, 1, 2)
    status, answer, headers = await client.predict(3)
    assert (status, answer["error"]) == (503, "queue_full")
    assert int(headers["Retry-After"]) >= 1
    model.gate.set()
    assert [status for status, *_ in await asyncio.gather(*tasks)] == [200] * 3


async def test_f21_bytes_are_refused_before_they_are_read(model, before):
    """Those of whoever waits count, and those that were announced and have not come."""
    client = await before(max_body=1000, bounds=Bounds(max_queue_bytes=2000))
    model.gate.clear()
    waiting = asyncio.ensure_future(client.predict("x" * 900))
    await until(lambda: model.batches)
    _, writer = await connect(client.url)
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n"
    writer.write(head)
    await until(lambda: held(client) > 1900)
    status, answer, _ = await client.predict("y" * 100)
    assert (status, answer["error"]) == (503, "queue_full")
    writer.close()
    await until(lambda: held(client) < 1000)
    model.gate.set()
    assert (await waiting)[0] == 200
    assert held(client) == 0
    assert (await client.predict("y" * 100))[0] == 200


_IN_CHUNKS = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_f21_what_nobody_announced_counts_when_it_comes(before):
    """A byte each of many slow clients leaves room for others; but not what comes after it."""
    client = await before(max_body=1000, bounds=Bounds(max_queue_bytes=2000))
    async with AsyncExitStack() as slow:
        writers = []
        for _ in range(10):
            _, writer = await connect(client.url)
            slow.callback(writer.close)
            writer.write(_IN_CHUNKS + b"1\r\n{\r\n")
            writers.append(writer)
        await until(lambda: held(client) == 10)
        assert (await client.predict("x" * 900))[0] == 200
        for writer in writers[:2]:
            writer.write(b"3dE\r\n" + b" " * 990 + b"\r\n")
        await until(lambda: held(client) == 10 + 2 * 990)
        status, answer, _ = await client.predict("x" * 100)
        assert (status, answer["error"]) == (503, "queue_full")
        reader, writer = await connect(client.url)
        slow.callback(writer.close)
        writer.write(_IN_CHUNKS + b"64\r\n" + b" " * 100 + b"\r\n")
        assert (await reader.readline()).split()[1] == b"503"
    await until(lambda: held(client) == 0)


async def test_a_body_in_chunks_that_is_too_large_to_be_kept_is_passed_on(model, before):
    """As one is that says so; what had come of it goes before the rest, and is held no longer."""
    client = await before(max_body=1000)
    too_large, last = asyncio.Event(), asyncio.Event()

    async def parts():
        yield b'{"instances": ["' + b"x" * 900
        await too_large.wait()
        yield b"y" * 900
        await last.wait()
        yield b'"]}'

    sending = asyncio.ensure_future(
        client.session.post(f"{client.url}/v1/models/m:predict", data=parts())
    )
    await until(lambda: held(client))
    too_large.set()
    await until(lambda: not held(client))
    last.set()
    async with await sending as response:
        assert await response.json() == {"predictions": [2 * ("x" * 900 + "y" * 900)]}
        assert "X-Batch-Size" not in response.headers
    await until(lambda: held(client) == 0)


async def test_f8_who_hangs_up_leaves_the_queue(model, before):
    """He takes no place in a batch, and his neighbours don't notice."""
    client = await before()
    first, gone, neighbour = await stuck(model, client, 0, 1, 2)
    gone.cancel()
    await until(lambda: queued(client) == 1)
    model.gate.set()
    assert (await first)[1] == {"predictions": [0]}
    assert (await neighbour)[1] == {"predictions": [4]}
    assert model.batches == [[0], [2]]
    assert held(client) == 0


async def test_f8_who_hangs_up_while_his_batch_runs(model, before):
    """The others get their answers, the next batch as well."""
    client = await before()
    first, *others = await stuck(model, client, 0, 1, 2)
    first.cancel()
    model.gate.set()
    assert [answer for _, answer, _ in await asyncio.gather(*others)] == [
        {"predictions": [2]},
        {"predictions": [4]},
    ]


async def test_t3_one_connection_too_many_is_dropped(model, before, caplog):
    """The others are served, and there is room again when one of them leaves; operators know."""
    client = await before(bounds=Bounds(max_connections=3))
    metrics = client.running.metrics
    assert metrics.connections_dropped() == 0
    async with AsyncExitStack() as others:
        for _ in range(3):
            _, writer = await connect(client.url)
            others.callback(writer.close)
        with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
            await client.predict(1)
        assert metrics.connections_dropped() >= 1
        assert "a connection was dropped: 3 are open" in caplog.text
    while True:
        try:
            assert (await client.predict(1))[0] == 200
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            continue
        return


async def test_t4_nothing_is_inflated(model, before):
    """A bomb is a small body to us; whether it is inflated is for the server to say."""
    client = await before(max_body=1000)
    bomb = gzip.compress(bytes(2**20), mtime=0)
    assert len(bomb) > 1000
    headers = {"Content-Encoding": "gzip"}
    url = f"{client.url}/echo"
    async with client.session.post(url, data=bomb, headers=headers) as response:
        assert response.status == 200
    assert model.seen[-1]["Content-Encoding"] == "gzip"
    assert model.seen[-1]["Content-Length"] == str(len(bomb))


async def test_t11_a_tenant_that_floods_leaves_room_for_others(model, before):
    """What he has under way is bounded; who is not named is a tenant as well."""
    client = await before(bounds=Bounds(tenant_header="X-Tenant", max_per_tenant=2))
    model.gate.clear()
    flood = [asyncio.ensure_future(client.predict(n, X_Tenant="a")) for n in range(5)]
    others = [asyncio.ensure_future(client.predict(10 + n)) for n in range(2)]
    await until(lambda: sum(task.done() for task in flood) == 3)
    neighbour = asyncio.ensure_future(client.predict(20, X_Tenant="b"))
    await until(lambda: client.running._router.in_flight == 5)
    model.gate.set()
    answers = await asyncio.gather(*flood)
    refused = [(answer["error"], headers) for status, answer, headers in answers if status == 429]
    assert [code for code, _ in refused] == ["tenant_limit"] * 3
    assert all(headers["Retry-After"] for _, headers in refused)
    assert [status for status, *_ in await asyncio.gather(*others, neighbour)] == [200] * 3
    assert (await client.predict(1, X_Tenant="a"))[0] == 200
    assert not client.running._router._tenants._under_way


def test_bounds_without_room_for_one_request():
    """They are told, with what would be enough."""
    from adaptive_batching.marshal.sidecar.route import Route
    from adaptive_batching.marshal.sidecar.runner import SidecarRunning
    from adaptive_batching.marshal.sidecar.upstream.addresses import Location
    from adaptive_batching.wire.tensorflow import TensorFlowServing

    route = Route("models", [Location(URL("http://h:1"))], TensorFlowServing())
    with pytest.raises(
        ValueError, match=r"max_queue_bytes: expected at least .* 8388608, got 1000"
    ):
        SidecarRunning([route], bounds=Bounds(max_queue_bytes=1000))


@pytest.mark.parametrize("attack", ["-H", "-B", "-X"])
async def test_t2_slow_clients_take_nobodys_place(model, before, attack):
    """200 that drip headers, that drip bodies, that read a byte at a time; others are answered."""
    tool = shutil.which("slowhttptest")
    if tool is None:
        pytest.skip("slowhttptest is not installed")
    client = await before()
    url = f"{client.url}/v1/models/m:predict"
    arguments = [attack, "-c", "200", "-r", "200", "-l", "60", "-i", "1", "-u", url]
    slow = await asyncio.create_subprocess_exec(
        tool, *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    server = client.running._server
    await until(lambda: len(server._connections) > 100 or slow.returncode is not None)
    assert slow.returncode is None
    for _ in range(200):
        status, answer, _ = await client.predict(21)
        assert (status, answer) == (200, {"predictions": [42]})
    slow.terminate()
    await slow.wait()
