"""Several processes that speak HTTP before the same workers."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from click.testing import CliRunner
from yarl import URL

from adaptive_batching.cli.serve import command
from adaptive_batching.core import JobOutcome
from adaptive_batching.marshal.service import Service
from tests.marshal import apps
from tests.marshal.client import Client, until

SERVE = [sys.executable, "-m", "adaptive_batching", "serve"]
SLOWLY = 30  # seconds that a process may take to start on a busy machine


@asynccontextmanager
async def client_of(service, marshals=2):
    """A service with several marshals, and a client of it."""
    running = service.prepared(admin=("127.0.0.1", 0), marshals=marshals)
    try:
        await running.start("127.0.0.1", 0)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)  # each request on its own
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Client(running, session)
    finally:
        await running.stop(5)


def of_loop(handler, **limits):
    """A service whose handler runs on our loop, so that a test can look on."""
    service = Service(body_timeout=0.3)
    service.endpoint("/", **limits)(handler)
    return service


async def test_requests_of_all_marshals_share_batches():
    """Eight connections, spread by the kernel over four processes, are one batch."""
    batches = []

    async def handler(items):
        batches.append(sorted(items))
        return [2 * item for item in items]

    service = of_loop(handler, max_batch_size=8, policy="window:1h")
    async with client_of(service, marshals=4) as client:
        pids = client.running.marshals
        assert len({*pids}) == 4
        assert os.getpid() not in pids
        answers = await asyncio.gather(*(client.post("/", number) for number in range(8)))
        assert [answer.json for answer in answers] == [2 * number for number in range(8)]
        assert len({answer.headers["X-Request-Id"] for answer in answers}) == 8
    assert batches == [[*range(8)]]


async def test_errors_are_those_of_a_single_marshal():
    """Whichever of the processes finds them."""

    async def handler(items):
        if "slow" in items:
            await asyncio.sleep(1)
        return [KeyError("secret detail") if item == "error" else item for item in items]

    async with client_of(of_loop(handler, max_body=50, max_batch_size=1)) as client:
        told = {
            (400, "malformed"): await client.post("/", b"{"),
            (413, "body_too_large"): await client.post("/", b"1" * 51),
            (500, "handler_error"): await client.post("/", "error"),
            (405, "method_not_allowed"): await client.get("/"),
            (404, "not_found"): await client.get("/nothing"),
        }
        hasty = {"X-Request-Timeout-Ms": "50"}
        told[504, "deadline_exceeded"] = await client.post("/", "slow", headers=hasty)
        assert [(each.status, each.error) for each in told.values()] == [*told]
        assert b"secret" not in b"".join(each.body for each in told.values())
        responses = client.running.lanes["/"].responses
        await until(lambda: sum(responses.values()) == 5)
        assert responses == {400: 1, 413: 1, 500: 1, 405: 1, 504: 1}


async def test_connections_that_a_marshal_drops_are_counted():
    """It bears in mind how many files it may open, and the service knows."""

    async def handler(items):
        return items

    _, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    async with AsyncExitStack() as open_ones:
        try:
            client = await open_ones.enter_async_context(client_of(of_loop(handler)))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        where = URL(client.running.url)
        for _ in range(2 * 96 + 1):
            _, writer = await asyncio.open_connection(where.host, where.port)
            open_ones.callback(writer.close)
        await until(client.running.metrics.connections_dropped)


async def test_the_answer_knows_the_codec():
    """Settled by the marshal, and told to the handler."""
    service = Service()

    @service.endpoint("/", codec=["json", "msgpack"])
    async def same(items):
        return items

    async with client_of(service) as client:
        headers = {"Content-Type": "application/json", "Accept": "application/msgpack"}
        answer = await client.post("/", b'{"a": 1}', headers=headers)
        assert answer.headers["Content-Type"] == "application/msgpack"
        assert answer.body == b"\x81\xa1a\x01"


async def test_a_client_that_leaves_leaves_the_queue():
    """Its marshal says so."""
    batches, gate = [], asyncio.Event()

    async def handler(items):
        batches.append(items)
        await gate.wait()
        return items

    async with client_of(of_loop(handler, max_batch_size=1)) as client:
        first = asyncio.create_task(client.post("/", 1))
        await until(lambda: batches)
        second = asyncio.create_task(client.post("/", 2))
        await until(lambda: client.stats("/").queued)
        second.cancel()
        await until(lambda: not client.stats("/").queued)
        assert client.stats("/").requests[JobOutcome.CANCELLED] == 1
        gate.set()
        assert (await first).json == 1
    assert batches == [[1]]


async def test_a_marshal_that_dies_is_replaced():
    """What its clients waited for is withdrawn; the others' are answered."""
    gate, batches = asyncio.Event(), []

    async def handler(items):
        batches.append(items)
        await gate.wait()
        return items

    async with client_of(of_loop(handler, max_batch_size=1)) as client:
        requests = [asyncio.create_task(client.post("/", number)) for number in range(20)]
        await until(lambda: client.stats("/").queued == 19)
        dead, alive = client.running.marshals
        os.kill(dead, signal.SIGKILL)
        await until(lambda: client.stats("/").queued < 19)
        gate.set()
        ended = await asyncio.gather(*requests, return_exceptions=True)
        answered = [each for each in ended if not isinstance(each, aiohttp.ClientError)]
        assert 0 < len(answered) < 20
        assert {answer.status for answer in answered} == {200}
        await until(lambda: len({*client.running.marshals} - {dead}) == 2, within=SLOWLY)
        assert alive in client.running.marshals
        assert (await client.post("/", 1)).status == 200


async def test_readiness_is_that_of_the_service():
    """Each marshal asks it; so does the deep check."""

    async def handler(items):
        return items

    async with client_of(of_loop(handler, examples=[1])) as client:
        assert (await client.get("/healthz")).status == 200
        assert (await client.get("/readyz")).json == {"status": "ready"}
        assert (await client.get("/readyz?deep=1")).json["endpoints"] == {"/": "ok"}
        client.running.announce_end()
        answer = await client.get("/readyz")
        assert (answer.status, answer.error) == (503, "draining")


@asynccontextmanager
async def served(*options):
    """A service in a process of its own, and where it listens."""
    process = await asyncio.create_subprocess_exec(
        *SERVE, "tests.marshal.apps:service", "--port=0", "--admin-port=0", "--marshals=2",
        *options, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(SLOWLY):
            line = await process.stdout.readline()
        yield process, line.split()[1].decode().rpartition("/")[0]
    finally:
        if process.returncode is None:
            process.kill()
        await process.stdout.read()
        await process.wait()


async def test_sigterm_under_load_loses_nothing():
    """Every request on an accepted connection gets its answer; SIGHUP renews the workers."""
    async with served("--drain-delay=300ms") as (process, url), aiohttp.ClientSession() as session:
        answers, warm = [], asyncio.Event()

        async def visitor(number):
            while True:
                async with session.post(f"{url}/square", json=number) as response:
                    answers.append((response.status, number, await response.json()))
                    if len(answers) >= 200:
                        warm.set()
                    if response.headers.get("Connection") == "close":
                        return

        visitors = [asyncio.create_task(visitor(number)) for number in range(20)]
        process.send_signal(signal.SIGHUP)
        await warm.wait()
        process.send_signal(signal.SIGTERM)
        await asyncio.gather(*visitors)
        assert all(status == 200 and answer == n * n for status, n, answer in answers)
        assert await process.wait() == 0


async def listens(where):
    """Whether anybody takes a connection."""
    try:
        _, writer = await asyncio.open_connection(where.host, where.port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


async def test_marshals_whose_service_has_died_say_so_and_end():
    """Their clients hear 503 and that the connection closes; then the port is free."""
    async with served() as (process, url), asyncio.timeout(SLOWLY):
        where = URL(url)
        reader, writer = await asyncio.open_connection(where.host, where.port)
        post = b"POST /square HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n3"
        writer.write(post)
        assert (await reader.readuntil(b"\r\n\r\n9")).startswith(b"HTTP/1.1 200 ")
        process.kill()
        await process.wait()
        writer.write(post)
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"error":"no_workers"' in answer
        assert b"Connection: close" in answer
        while await listens(where):
            pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--marshals=2"], "expected --admin-port with it"),
        (["--marshals=2", "--admin-port=0", "--unix-socket=/x"], "got --unix-socket"),
        (["--marshals=0"], "expected a whole number from 1 on, got '0'"),
    ],
)
def test_what_several_marshals_can_not_do(options, message):
    """One sentence, before anything is started."""
    result = CliRunner().invoke(command, ["tests.marshal.apps:corked", *options])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


async def test_a_port_that_is_taken(unused_tcp_port):
    """Somebody who does not share it."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    running = apps.service.prepared(admin=("127.0.0.1", 0), marshals=2)
    with pytest.raises(OSError, match=f"can't listen on 127.0.0.1 port {port}"):
        await running.start("127.0.0.1", port)
    await running.stop(1)
    server.close()
    await server.wait_closed()
