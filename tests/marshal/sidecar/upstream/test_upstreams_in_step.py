"""Servers that answer more often than they are asked: F1, and no client gets another's answer."""

import asyncio
import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest

from tests.marshal.admin.test_sidecar import samples
from tests.marshal.sidecar.peers.raw import connect, exchange
from tests.marshal.sidecar.peers.scripted import OK, scripted
from tests.stream_server import listening
from tests.workers.conditions import until


class CarelessServer(BaseHTTPRequestHandler):
    """Reads no body of a GET, as the standard library's server doesn't: it is the next request."""

    protocol_version = "HTTP/1.1"

    def say(self, answer):
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.say({"status": "ok"})

    def do_POST(self):
        instances = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
        if "attacker" in instances:
            self.server.attacked.set()
            self.server.gate.wait(5)
        self.say({"predictions": instances})
        if "attacker" in instances:
            self.server.answered.set()

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def careless():
    with ThreadingHTTPServer(("127.0.0.1", 0), CarelessServer) as server:
        server.handle_error = lambda *_: server.answered.set()  # the connection was gone
        server.attacked, server.gate, server.answered = (threading.Event() for _ in range(3))
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        server.url = f"http://127.0.0.1:{server.server_port}"
        yield server
        server.gate.set()
        server.shutdown()
        thread.join()


def post(instances):
    body = json.dumps({"instances": instances}).encode()
    return b"POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


@pytest.mark.parametrize("races", [False, True])
async def test_f1_a_get_with_a_request_for_its_body(careless, before, races):
    """Its second answer is nobody's, be it there before the next request or after that was sent."""
    client = await before(server=careless.url)
    inner = post(["attacker"])
    head = (
        b"GET /v1/models/m HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    )
    assert b'{"status": "ok"}' in await exchange(client.url, head % len(inner) + inner)
    await asyncio.to_thread(careless.attacked.wait, 5)
    if races:
        answers = [asyncio.ensure_future(client.predict(number)) for number in range(3)]
        stats = client.running.dispatchers["models"].stats
        await until(lambda: stats().running or stats().batches)  # all may be over at the first look
    careless.gate.set()
    await asyncio.to_thread(careless.answered.wait, 5)
    if not races:
        answers = map(client.predict, range(3))
    for number, answer in enumerate(answers):
        assert (await answer)[1] == {"predictions": [number]}


def answer(*results):
    body = json.dumps({"predictions": results}).encode()
    return OK + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    "head",
    [b"HEAD /x HTTP/1.1\r\n", b"GET /nothing HTTP/1.1\r\n"],
    ids=["HEAD", "204"],
)
async def test_f1_a_body_that_must_not_be(before, head):
    """The connection ends with an answer that has no body: one that comes later is nobody's."""

    async def script(exchange):
        if exchange.head.startswith(b"HEAD"):
            stale = answer("stale")
            await exchange.write(OK + b"Content-Length: %d\r\n\r\n" % len(stale))
        elif exchange.head.startswith(b"GET"):
            stale = answer("stale")
            await exchange.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        else:
            return await exchange.predict()
        await answered.wait()
        return await exchange.write(stale)

    answered = asyncio.Event()
    async with scripted(script) as server:
        client = await before(server=server.url)
        await exchange(client.url, head + b"Host: h\r\nConnection: close\r\n\r\n")
        answered.set()
        for number in range(3):
            url = f"{client.url}/v1/models/m:generate"  # passed on
            async with client.session.post(url, json={"instances": [number]}) as response:
                assert await response.json() == {"predictions": [2 * number]}


@pytest.mark.parametrize("path", ["predict", "generate"])
async def test_f1_an_answer_too_many_before_the_next_request(before, path):
    """The connection is closed and counted, and no client gets it, whatever the next request is."""

    async def script(exchange):
        await exchange.predict()
        if not exchange.number:
            await answered.wait()
            await exchange.write(answer("stale"))

    answered = asyncio.Event()
    async with scripted(script) as server:
        client = await before(server=server.url)
        url = f"{client.url}/v1/models/m:{path}"
        for number in range(20):
            async with client.session.post(url, json={"instances": [number]}) as response:
                assert await response.json() == {"predictions": [2 * number]}
            answered.set()
        kind = {"predict": "batch", "generate": "passed"}[path]

        async def counted():
            return (await samples(client))["upstream_unasked_total", "models", kind]

        while not await counted():  # noqa: ASYNC110  a metric has no event
            await asyncio.sleep(0.05)
        assert await counted() == 1


async def test_f1_an_answer_too_many_after_the_next_request(before):
    """One client gets it, for nothing tells it from the true one; then the connection is closed."""
    used = set()

    async def script(exchange):
        if exchange._writer not in used:
            used.add(exchange._writer)
            await asyncio.sleep(0.3)  # so long does the connection rest
        elif not stale.is_set():
            stale.set()
            await exchange.write(answer("stale"))
            await asyncio.sleep(0.03)
        await exchange.predict()

    stale = asyncio.Event()
    async with scripted(script) as server:
        client = await before(server=server.url, more={"concurrency": 4}, max_batch_size=1)
        wrong, numbers = 0, count()

        async def ask():
            nonlocal wrong
            number = next(numbers)
            status, said, _ = await client.predict(number)
            assert status == 200
            wrong += said != {"predictions": [2 * number]}

        async def keep_asking():
            while not stale.is_set():
                await ask()
            for _ in range(20):
                await ask()

        await asyncio.gather(*(keep_asking() for _ in range(4)))
        assert wrong == 1
        assert (await samples(client))["upstream_unasked_total", "models", "batch"] == 1


async def test_f1_an_answer_before_the_request(before):
    """A server that answers a request of which it has seen nothing yet answers another one."""

    async def greet(reader, writer):
        writer.write(answer("stale"))
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with listening(greet) as url:
        client = await before(server=url)
        reader, writer = await connect(client.url)
        writer.write(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 502 Bad Gateway\r\n"
        writer.close()
        assert (await samples(client))["upstream_unasked_total", "models", "passed"] == 1


async def test_f1_batches_and_what_is_passed_on_share_no_connection(before):
    """And of each kind some connection is used again, once it has rested."""
    writers = {"predict": [], "generate": []}

    async def script(exchange):
        kind = "predict" if b":predict" in exchange.head else "generate"
        writers[kind].append(exchange._writer)
        await exchange.predict()

    def used_again(kind):
        return len(set(writers[kind])) < len(writers[kind])

    async with scripted(script) as server:
        client = await before(server=server.url)
        while not all(map(used_again, writers)):
            for kind in writers:
                url = f"{client.url}/v1/models/m:{kind}"
                async with client.session.post(url, json={"instances": [1]}) as response:
                    assert response.status == 200
        assert not {*writers["predict"]} & {*writers["generate"]}
