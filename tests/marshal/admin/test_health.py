"""What orchestrators and Prometheus see."""

import asyncio
import os
import signal
import threading

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from adaptive_batching.marshal.service.runner import Running
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.workers.placement import Threads
from tests.marshal import apps
from tests.marshal.client import Client, client_of, until


async def test_healthy_and_ready():
    """Both also as HEAD."""
    async with client_of(Service()) as client:
        for path in ("/healthz", "/readyz"):
            assert (await client.get(path)).status == 200
            answer = await client.send("HEAD", path)
            assert (answer.status, answer.body) == (200, b"")


async def test_alive_but_not_ready_while_a_model_loads():
    """Nobody restarts it for that, and what is sent all the same is refused at once."""
    loaded = threading.Event()
    service = Service()

    @service.endpoint("/", workers=Threads(1))
    class Large:
        def __init__(self):
            loaded.wait(5)

        def __call__(self, items):
            return items

    running = Running(service.description)
    starting = asyncio.create_task(running.start("127.0.0.1", 0))
    await until(lambda: running.url)
    async with aiohttp.ClientSession() as session:
        client = Client(running, session)
        assert (await client.get("/healthz")).status == 200
        assert (await client.get("/readyz")).error == "no_workers"
        early = await client.post("/", 1)
        assert (early.status, early.error) == (503, "no_workers")
        assert int(early.headers["Retry-After"]) >= 1
        loaded.set()
        await starting
        assert (await client.get("/readyz")).status == 200
        assert (await client.post("/", 1)).json == 1
        await running.stop(1)


async def test_not_ready_while_draining():
    """But alive, and at work; every answer closes its connection."""
    async with client_of(apps.service) as client:
        client.running.announce_end()
        answer = await client.get("/readyz")
        assert (answer.status, answer.error) == (503, "draining")
        assert "Retry-After" in answer.headers
        assert (await client.get("/healthz")).status == 200
        answer = await client.post("/square", 3)
        assert (answer.json, answer.headers["Connection"]) == (9, "close")


async def test_requests_on_open_connections_are_answered_while_draining():
    """Whoever keeps a connection hears with the next answer, and not before, that it ends."""
    async with client_of(apps.service) as client:
        url = URL(client.running.url)
        connections = [await asyncio.open_connection(url.host, url.port) for _ in range(5)]
        post = b"POST /square HTTP/1.1\r\nHost: here\r\nContent-Length: 1\r\n\r\n%d"
        for _, writer in connections:
            writer.write(post % 2)
        for reader, _ in connections:
            assert (await reader.readuntil(b"\r\n\r\n4")).startswith(b"HTTP/1.1 200")
        stopping = asyncio.create_task(client.running.stop(5))
        for number, (reader, writer) in enumerate(connections):
            await asyncio.sleep(0.04)
            writer.write(post % number)
            answer = await reader.read()  # until it is closed
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b"\r\n\r\n%d" % number**2)
            writer.close()
        await stopping


async def test_idle_connections_hold_nothing_up():
    """A client that keeps one and sends nothing is not waited for."""
    async with client_of(apps.service) as client:
        url = URL(client.running.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        await client.running.stop(3600)
        assert await reader.read() == b""
        writer.close()


async def test_not_ready_without_a_worker(caplog):
    """One endpoint of several is enough."""
    async with client_of(apps.service) as client:
        os.kill((await client.post("/slow", 0)).json, signal.SIGKILL)
        await until(lambda: not client.stats("/slow").workers)
        answer = await client.get("/readyz")
        assert (answer.status, answer.error) == (503, "no_workers")
    assert "/readyz: no_workers: " in caplog.text


async def test_metrics():
    """What happened, in Prometheus' own format."""
    service = Service()

    @service.endpoint("/echo", max_batch_size=4, policy="window:1h")
    async def echo(items):
        return items

    async with client_of(service) as client:
        await asyncio.gather(*(client.post("/echo", body) for body in (1, 2, 3, b"?")))
        await client.get("/random/path")
        exposed = (await client.get("/metrics")).body.decode()
    samples = {
        (
            sample.name.removeprefix("adaptive_batching_"),
            *sorted(sample.labels.values()),
        ): sample.value
        for family in text_string_to_metric_families(exposed)
        for sample in family.samples
    }
    assert samples["requests_total", "/echo", "done"] == 4
    assert samples["requests_total", "/echo", "failed"] == 0
    assert samples["batches_total", "/echo", "full"] == 1
    assert samples["batch_size_bucket", "/echo", "2"] == 0
    assert samples["batch_size_bucket", "/echo", "4"] == 1
    assert samples["batch_size_sum", "/echo"] == 4
    assert samples["request_duration_seconds_count", "/echo"] == 4
    assert samples["http_responses_total", "/echo", "200"] == 3
    assert samples["http_responses_total", "/echo", "400"] == 1
    assert samples["http_responses_total", "404", "other"] == 1
    assert samples["workers", "/echo", "alive"] == 1
    assert samples["worker_batches_total", "/echo", "0"] == 1
    assert samples["worker_full_batch_seconds", "/echo", "0"] > 0
    assert samples["queue_items", "/echo"] == 0
    assert "random" not in exposed
