"""Endpoints in applications of others: aiohttp's, and whatever an ASGI server runs."""

import asyncio
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import uvicorn
from aiohttp import web
from fastapi import FastAPI

from adaptive_batching.core import JobOutcome
from adaptive_batching.marshal.service.service import Service
from tests.marshal import apps
from tests.marshal.client import Answer, until

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"


class Mounted:
    """A service that is a part of an application, and what its handler sees."""

    def __init__(self, *, max_queue_bytes=2**30, **limits):
        self.service = Service(body_timeout=0.3, max_queue_bytes=max_queue_bytes)
        self.batches = []
        self.gate = asyncio.Event()
        self.gate.set()

        @self.service.endpoint("/double", max_body=100, **limits)
        async def double(items):
            self.batches.append(items)
            await self.gate.wait()
            return [2 * item for item in items]


@asynccontextmanager
async def in_aiohttp(mounted, **_):
    """As a sub-application; gives its URL."""
    application = web.Application()
    application.add_subapp("/models", mounted.service.as_aiohttp())
    runner = web.AppRunner(application, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site.port}/models"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def in_uvicorn(application):
    """What an ASGI server runs; gives its URL."""
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="warning", ws="none"))
    serving = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started or serving.done())
        assert not serving.done()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def in_fastapi(mounted, *, forgotten=False):
    """Mounted in an application of FastAPI, whose lifespan starts the workers."""

    @asynccontextmanager
    async def lifespan(_):
        async with mounted.service.running_workers():
            yield

    application = FastAPI(lifespan=None if forgotten else lifespan)
    application.mount("/models", mounted.service)
    async with in_uvicorn(application) as url:
        yield f"{url}/models"


@asynccontextmanager
async def alone_in_uvicorn(mounted):
    """By itself: the server tells it of its lifespan."""
    async with in_uvicorn(mounted.service) as url:
        yield url


@asynccontextmanager
async def by_itself(mounted):
    """Behind our own server."""
    async with mounted.service.running() as running:
        yield running.url


EVERYWHERE = pytest.mark.parametrize("place", [in_aiohttp, in_fastapi, alone_in_uvicorn, by_itself])


@asynccontextmanager
async def session_at(url):
    """Posts to an application."""

    async def send(body, path="/double", method="POST", **how):
        async with session.request(method, url + path, data=body, **how) as response:
            return Answer(response.status, response.headers, await response.read())

    async with aiohttp.ClientSession() as session:
        yield send


@EVERYWHERE
async def test_single_requests_share_batches(place):
    """Each gets its own answer, under an id."""
    mounted = Mounted(max_batch_size=4, policy="window:1h")
    async with place(mounted) as url, session_at(url) as send:
        answers = await asyncio.gather(*(send(str(number)) for number in range(8)))
        assert [answer.json for answer in answers] == [2 * number for number in range(8)]
        assert {answer.headers["Content-Type"] for answer in answers} == {"application/json"}
        named = await asyncio.gather(*(send("1", headers={"X-Request-Id": "abc"}) for _ in "1234"))
        assert {answer.headers["X-Request-Id"] for answer in named} == {"abc"}
    assert [len(batch) for batch in mounted.batches] == [4, 4, 4]


@EVERYWHERE
async def test_without_batching(place):
    """One item at a time, all else as ever."""
    mounted = Mounted(max_batch_size=1)
    async with place(mounted) as url, session_at(url) as send:
        answers = await asyncio.gather(*(send(str(number)) for number in range(5)))
        assert [answer.json for answer in answers] == [0, 2, 4, 6, 8]
    assert {len(batch) for batch in mounted.batches} == {1}


@EVERYWHERE
async def test_what_can_not_be_answered(place):
    """The same codes as before our own server, whoever parses HTTP."""
    mounted = Mounted(max_latency=60.0)
    async with place(mounted) as url, session_at(url) as send:
        told = {
            (400, "malformed"): (malformed := await send("{")),
            (405, "method_not_allowed"): await send(None, method="PUT"),
            (413, "body_too_large"): await send("1" * 101),
            (415, "unsupported_encoding"): await send("1", headers={"Content-Encoding": "gzip"}),
        }
        mounted.gate.clear()
        hasty = {"X-Request-Timeout-Ms": "500"}
        told[504, "deadline_exceeded"] = await send("1", headers=hasty)
        mounted.gate.set()
        assert [(each.status, each.error) for each in told.values()] == [*told]
        assert malformed.json["message"] == "Input data was truncated"
        assert (await send(None, "/nothing", "GET")).status == 404


@EVERYWHERE
async def test_a_body_that_does_not_come(place):
    """Nobody waits for it for ever."""

    async def slowly():
        yield b"1"
        await asyncio.sleep(1)
        yield b"2"

    mounted = Mounted()
    async with place(mounted) as url, session_at(url) as send:
        answer = await send(slowly())
        assert (answer.status, answer.error) == (408, "body_timeout")
    assert mounted.batches == []


@EVERYWHERE
async def test_bodies_that_do_not_fit_into_memory_together(place):
    """They are refused until those before them are answered, whether announced or in chunks."""

    async def in_chunks():
        for _ in range(2):
            yield b"2" + b" " * 49

    mounted = Mounted(max_queue_bytes=150, max_batch_size=1)
    mounted.gate.clear()
    async with place(mounted) as url, session_at(url) as send:
        first = asyncio.create_task(send(b"1" + b" " * 99))
        await until(lambda: mounted.batches)
        for body in (b"2" + b" " * 99, in_chunks()):
            refused = await send(body)
            assert (refused.status, refused.error) == (503, "queue_full")
            assert refused.headers["Retry-After"]
        metrics = (await send(None, "/metrics", "GET")).body.decode()
        assert "adaptive_batching_held_bytes 100.0" in metrics
        second = asyncio.create_task(send(b"3" + b" " * 49))
        mounted.gate.set()
        assert [(await first).json, (await second).json] == [2, 6]
        assert (await send(b"4" + b" " * 99)).json == 8
        metrics = (await send(None, "/metrics", "GET")).body.decode()
        assert "adaptive_batching_held_bytes 0.0" in metrics
    assert mounted.batches == [[1], [3], [4]]


@EVERYWHERE
async def test_a_client_that_leaves_leaves_the_queue(place):
    """What nobody waits for is not computed."""
    mounted = Mounted(max_batch_size=1)
    mounted.gate.clear()
    async with place(mounted) as url, session_at(url) as send:
        first = asyncio.create_task(send("1"))
        await until(lambda: mounted.batches)
        second = asyncio.create_task(send("2"))
        [runtimes] = mounted.service.description.at_work
        await until(lambda: runtimes.dispatchers["/double"].stats().queued)
        second.cancel()
        third = asyncio.create_task(send("3"))
        metrics = await send(None, "/metrics", "GET")
        cancelled = f'outcome="{JobOutcome.CANCELLED.value}"}} 1.0'
        while cancelled not in metrics.body.decode():
            metrics = await send(None, "/metrics", "GET")
        mounted.gate.set()
        assert [(await first).json, (await third).json] == [2, 6]
    assert mounted.batches == [[1], [3]]


@EVERYWHERE
async def test_pages(place):
    """Alive and ready, and described where it is."""
    async with place(Mounted()) as url, session_at(url) as send:
        for path in ("/healthz", "/readyz", "/metrics", "/docs"):
            page = await send(None, path, "GET")
            assert page.status == 200
            assert page.headers.get("X-Request-Id") != ""
        document = (await send(None, "/openapi.json", "GET")).json
        begin = await send(None, "/", "GET")  # leads to the documents
        assert (begin.status, b"/double" in begin.body) == (200, True)
        assert document["servers"] == [{"url": "./"}]
        assert "post" in document["paths"]["/double"]


@EVERYWHERE
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/docs", "/openapi.json"])
async def test_pages_can_only_be_looked_at(place, path):
    """They are answered and refused alike, whoever parses HTTP."""
    async with place(Mounted()) as url, session_at(url) as send:
        head = await send(None, path, "HEAD")
        assert (head.status, head.body) == (200, b"")
        refused = await send(b"1", path, "POST")
        assert (refused.status, refused.error) == (405, "method_not_allowed")
        assert refused.headers["Allow"] == "GET, HEAD"
        assert refused.headers["X-Request-Id"] == refused.json["request_id"]


@EVERYWHERE
async def test_readiness_that_is_asked_for_deeply(place):
    """The endpoints' examples are sent; an endpoint that does not answer its own is named."""
    mounted = Mounted(examples=[1], max_latency=0.2)
    async with place(mounted) as url, session_at(url) as send:
        mounted.gate.clear()
        assert (await send(None, "/readyz?deep=0", "GET")).json == {"status": "ready"}
        answer = await send(None, "/readyz?deep=1", "GET")
        assert (answer.status, answer.error) == (503, "example_failed")
        assert answer.json["endpoints"] == {"/double": "deadline_exceeded"}
        mounted.gate.set()


async def test_workers_that_nobody_started(caplog):
    """The client hears that there are none, the log what to do about it."""
    async with in_fastapi(Mounted(), forgotten=True) as url, session_at(url) as send:
        for _ in range(3):
            answer = await send("1")
            assert (answer.status, answer.error) == (503, "no_workers")
        assert (await send(None, "/readyz", "GET")).status == 503
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(said) == 1
    assert "`async with service.running_workers():` in the lifespan" in said[0]


async def test_workers_that_can_not_be_started(caplog):
    """An ASGI server says why, and does not start."""
    server = uvicorn.Server(uvicorn.Config(apps.unloadable, port=0, log_config=None))
    with pytest.raises(SystemExit):
        await server.serve()
    assert "no model" in caplog.text


async def test_an_end_that_fails():
    """An ASGI server is told of the end, not of a second start."""
    received, sent = iter([{"type": "lifespan.startup"}]), []

    async def receive():
        return next(received)  # then it raises

    async def send(message):
        sent.append(message["type"])

    await Mounted().service({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.failed"]


async def test_the_log_has_its_counts_where_the_program_fails(caplog):
    """Of errors alike it says the first, and at the end how many more, whatever ended it."""
    service = Service()

    @service.endpoint("/broken")
    async def broken(items):
        raise RuntimeError("out of order")

    async def send(_message):
        pass

    async def program():
        async with service.running_workers():
            for _ in range(3):
                body = [{"type": "http.request", "body": b"1"}]
                await service(scope, partial(_next_of, body), send)
            raise KeyError("of the program")

    scope = {"type": "http", "method": "POST", "path": "/broken", "headers": []}
    with pytest.raises(KeyError, match="of the program"):
        await program()
    assert "handler_error: RuntimeError: 2 more like it" in caplog.messages[-1]


async def _next_of(messages):
    """The messages in their order; the client stays on after the last."""
    return messages.pop(0) if messages else await asyncio.get_running_loop().create_future()


async def test_the_example_in_the_documentation():
    """As its first lines say."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-W", "error", "-m", "uvicorn", "mounted:app", f"--port={port}"]
    process = await asyncio.create_subprocess_exec(*command, cwd=EXAMPLES, stderr=subprocess.PIPE)
    try:
        async with aiohttp.ClientSession() as session:
            await process.stderr.readuntil(b"running on")
            url = f"http://127.0.0.1:{port}/models/double"
            async with session.post(url, data=b"21") as response:
                assert await response.read() == b"42"
            process.terminate()
            await process.stderr.read()
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
