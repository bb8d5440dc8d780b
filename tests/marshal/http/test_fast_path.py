"""Requests that only their batch keeps waiting are answered without aiohttp's task, and as ever."""

import asyncio
import re
import socket
from contextlib import asynccontextmanager

import pytest
from yarl import URL

from adaptive_batching.instrumentation.tracing import Tracing
from adaptive_batching.marshal.http import server
from adaptive_batching.marshal.http.answer import as_sent
from adaptive_batching.marshal.http.connection import Connection
from adaptive_batching.marshal.service.service import Service
from tests.marshal.client import client_of, until

_VARIES = re.compile(
    rb"\r\n(?:Date|Server|Content-Length): [^\r]*|\w+-\w+(?=\"})|(?<=X-Request-Id: )[^\r]*"
)


class Held:
    """A service that gives back what it gets, once its gate is open."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.service = Service()
        self.service.endpoint("/echo", max_body=1000, policy="greedy")(self.echo)
        self.service.endpoint("/raw", codec="raw")(self.raw)
        self.service.endpoint("/large", codec="raw")(self.large)
        self.service.endpoint("/image", codec="raw", policy="greedy")(self.image)

    async def echo(self, items: list) -> list:
        await self.gate.wait()
        if "fail" in items:
            raise RuntimeError("as it was asked to")
        return items

    async def raw(self, items: list[bytes]) -> list[bytes]:
        return items

    async def image(self, items: list[bytes]) -> list[bytes]:
        await self.gate.wait()
        return items

    async def large(self, items: list[bytes]) -> list[bytes]:
        return [item * 2**23 for item in items]


class Streams:
    """A connection that stays open."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def post(self, path, body, *headers):
        lines = [b"POST %b HTTP/1.1" % path, b"Host: us", *headers]
        lines += [b"Content-Length: %d" % len(body), b"", body]
        self.writer.write(b"\r\n".join(lines))

    async def answer(self):
        async with asyncio.timeout(10):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"Content-Length: (\d+)", head)[1])
            return head, await self.reader.readexactly(length)


@asynccontextmanager
async def connected(client):
    url = URL(client.running.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        yield Streams(reader, writer)
    finally:
        writer.transport.abort()


def tasks_of_requests():
    """Those that aiohttp made."""
    return [each for each in asyncio.all_tasks() if "_handle_request" in repr(each.get_coro())]


def connections_of(client):
    """As the service sees them."""
    return client.running._listener._server.connections


def connection_of(client):
    """The only one."""
    [connection] = connections_of(client)
    return connection


def use_the_usual_path(client):
    client.running._listener._server._connection = Connection


@pytest.mark.parametrize("usual", [False, True])
async def test_no_task_is_made_for_it(usual):
    """Which is what the fast path is for."""
    held = Held()
    async with client_of(held.service) as client:
        if usual:
            use_the_usual_path(client)
        async with connected(client) as streams:
            streams.post(b"/echo", b"1")
            await until(lambda: client.stats("/echo").running)
            assert len(tasks_of_requests()) == usual
            held.gate.set()
            assert (await streams.answer())[1] == b"1"


async def test_no_task_is_made_for_an_image_that_comes_in_one_go():
    """Requests of 64 to 128 KiB had one for each, and a third fewer of them were answered."""
    held = Held()
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
    near.sendall(
        b"POST /image HTTP/1.1\r\nHost: us\r\nContent-Length: 120000\r\n\r\n" + bytes(120_000)
    )
    async with client_of(held.service) as client:
        server = client.running._listener._server
        await asyncio.get_running_loop().connect_accepted_socket(server, far)
        await until(lambda: client.stats("/image").running)
        assert not tasks_of_requests()
        held.gate.set()
    near.close()


CASES = {
    "an item": (b"/echo", b'{"a": 1}'),
    "with a name": (b"/echo", b"1", b"X-Request-Id: mine"),
    "with a name that is none": (b"/echo", b"1", b"X-Request-Id: a b"),
    "no JSON": (b"/echo", b"nonsense"),
    "nothing": (b"/echo", b""),
    "too much": (b"/echo", b"1" * 1001),
    "compressed": (b"/echo", b"1", b"Content-Encoding: gzip"),
    "not compressed": (b"/echo", b"1", b"Content-Encoding: identity"),
    "a failure": (b"/echo", b'"fail"'),
    "no time": (b"/echo", b"1", b"X-Request-Timeout-Ms: 0.001"),
    "another type": (b"/raw", b"1", b"Content-Type: text/html"),
    "a type that is not accepted": (b"/raw", b"", b"Accept: image/png"),
    "another path": (b"/nowhere", b"1"),
    "a whole URL": (b"http://elsewhere/echo", b"1"),
    "the last one": (b"/echo", b"1", b"Connection: close"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_answers_are_those_of_the_usual_path(case):
    """Byte for byte, but for what differs between any two, and the order of headers."""
    held = Held()
    held.gate.set()
    answers = []
    async with client_of(held.service) as client:
        for _ in range(2):
            async with connected(client) as streams:
                streams.post(*case)
                head, body = await streams.answer()
                masked = sorted(_VARIES.sub(b"", head).lower().split(b"\r\n"))
                answers.append((masked, _VARIES.sub(b"", body)))
            use_the_usual_path(client)
        counted = client.running.metrics.responses
        statuses = [dict(each) for each in counted.values() if each]
    assert answers[0] == answers[1]
    assert [list(each.values()) for each in statuses] == [[2]]


async def test_no_answer_to_head_has_a_body():
    """Its client would take it for the next answer."""
    held = Held()
    held.gate.set()
    async with client_of(held.service) as client, connected(client) as streams:
        streams.writer.write(b"HEAD /echo HTTP/1.1\r\nHost: us\r\nContent-Length: 1\r\n\r\n1")
        head = await streams.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 405 ")
        streams.post(b"/echo", b"2")
        head, body = await streams.answer()
        assert (head[:13], body) == (b"HTTP/1.1 200 ", b"2")


async def test_what_comes_meanwhile_waits_its_turn():
    """Answers have the order of their requests; the second goes the usual way."""
    held = Held()
    async with client_of(held.service) as client, connected(client) as streams:
        streams.post(b"/echo", b"1")
        await until(lambda: client.stats("/echo").running)
        streams.post(b"/echo", b"2")
        streams.post(b"/nowhere", b"3")
        held.gate.set()
        assert [(await streams.answer())[1] for _ in range(2)] == [b"1", b"2"]
        assert b"not_found" in (await streams.answer())[1]
        streams.post(b"/echo", b"4")
        assert (await streams.answer())[1] == b"4"


async def test_who_hangs_up_leaves_the_queue():
    """Nobody computes an answer for him."""
    service = Service()

    @service.endpoint("/", policy="window:1h")
    async def never(items):
        raise AssertionError(items)

    async with client_of(service) as client:
        async with connected(client) as streams:
            streams.post(b"/", b"1")
            await until(lambda: client.stats("/").queued)
        await until(lambda: not client.stats("/").queued)
        await client.running._marshal.emptied()


async def test_a_connection_that_waits_is_not_idle(monkeypatch):
    """It outlives the time after which idle ones are closed, and is closed when it is idle."""
    monkeypatch.setitem(server._CONNECTION, "keepalive_timeout", 0.1)
    held = Held()
    async with client_of(held.service) as client, connected(client) as streams:
        streams.post(b"/echo", b"1")
        await until(lambda: client.stats("/echo").running)
        connection = connection_of(client)
        await until(lambda: connection._keepalive_handle is None)  # it has rung
        held.gate.set()
        assert (await streams.answer())[1] == b"1"
        async with asyncio.timeout(10):
            assert await streams.reader.read() == b""


async def test_an_answer_that_is_not_read_holds_up_the_next():
    """Who does not read has one answer in our memory, not as many as he likes to ask for."""
    held = Held()
    async with client_of(held.service) as client, connected(client) as streams:
        streams.writer.transport.pause_reading()
        for number in range(3):
            streams.post(b"/large", b"%d" % number)
        responses = client.running.lanes["/large"].responses
        await until(lambda: responses[200] == 1)
        connection = connection_of(client)
        assert connection.writing_paused
        assert len(connection._messages) == 2
        streams.writer.transport.resume_reading()
        for number in range(3):
            assert (await streams.answer())[1] == b"%d" % number * 2**23


async def test_a_connection_that_ends_as_its_answer_comes(caplog):
    """Its answer goes out, and whoever waited for that in vain is not told any more."""
    held = Held()

    @held.service.endpoint("/late", policy="greedy")
    async def late(items):
        await held.gate.wait()
        asyncio.get_running_loop().call_soon(ending.cancel)  # between the result and its answer
        return items

    async with client_of(held.service) as client, connected(client) as streams:
        streams.post(b"/late", b"1")
        await until(lambda: client.stats("/late").running)
        ending = asyncio.create_task(connection_of(client).shutdown(10))
        held.gate.set()
        assert (await streams.answer())[1] == b"1"
        await asyncio.wait([ending])
    assert not caplog.records


async def test_what_can_not_be_begun_is_answered(caplog):
    """By aiohttp's task, which has an answer for every error."""
    service = Service()

    @service.endpoint("/")
    async def unasked(items):
        raise AssertionError(items)

    class Broken(Tracing):
        def begin(self, *_about):
            raise RuntimeError("no spans today")

    async with client_of(service, tracer=Broken()) as client:
        answer = await client.post("/", 1)
    assert (answer.status, answer.error) == (500, "internal")
    assert "no spans today" in caplog.text


async def test_a_service_that_ends_answers_who_waits_and_closes():
    """As it does those that went the usual way."""
    held = Held()
    async with client_of(held.service) as client, connected(client) as streams:
        streams.post(b"/echo", b"1")
        await until(lambda: client.stats("/echo").running)
        client.running.announce_end()
        held.gate.set()
        head, body = await streams.answer()
        assert (body, b"\r\nConnection: close\r\n" in head) == (b"1", True)
        assert await streams.reader.read() == b""


def test_no_header_becomes_two():
    """What servers say goes on in one line each, or not at all."""
    sent = as_sent(299, {"A": "b", "Date": "now"}, b"c", closes=True)
    assert sent.split(b"\r\n") == [
        *(b"HTTP/1.1 299 ", b"A: b", b"Date: now", b"Content-Length: 1", b"Connection: close"),
        *(b"", b"c"),
    ]
    for value in ("a\r\nB: c", "a\nB", "a\0"):
        with pytest.raises(ValueError, match="in one line"):
            as_sent(200, {"A": value}, b"")
