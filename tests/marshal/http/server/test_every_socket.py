"""What loops and sockets do differently is the same at our edge: over TCP, TLS, Unix and inherited
sockets, on asyncio and uvloop, with what aiohttp does by itself.
"""

import asyncio
import os
import socket
import ssl
from contextlib import asynccontextmanager
from functools import partial
from itertools import product

import pytest
import trustme
import uvloop
from aiohttp import HttpVersion10, web

from adaptive_batching.marshal.http import limits
from adaptive_batching.marshal.http.error_responses import Rejected, refusal
from adaptive_batching.marshal.http.handler import Keep
from adaptive_batching.marshal.http.response import Response
from adaptive_batching.marshal.http.server import server
from tests.marshal.client import until
from tests.marshal.http.server.held import Streams

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
SOCKETS = ["TCP", "TLS", "Unix", "inherited"]
DIRECTIONS = socket.SO_SNDBUF, socket.SO_RCVBUF
BUFFERED = 64 * 2**10  # bytes that the kernel keeps of each direction, and may double
MUCH = 4 * 2**20  # bytes; more than fit into all buffers of a connection
HELD = 2**20  # bytes of them that the server may have before its reader, or its client, takes any

GET = b"GET /short HTTP/1.1\r\nHost: us\r\n\r\n"
HOLD = b"GET /held HTTP/1.1\r\nHost: us\r\n\r\n"
PASS = b"GET /passed HTTP/1.1\r\nHost: us\r\n\r\n"
WISH = b"GET /held HTTP/1.1\r\nHost: us\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
UPLOAD = b"POST /passed HTTP/1.1\r\nHost: us\r\nContent-Length: %d\r\n\r\n"


class Handler:
    """Answers `/short` at once and `/held` when its gate is open; passes on all others."""

    draining, tunnels = False, True

    def __init__(self):
        self.gate = asyncio.Event()
        self.held, self.passing, self.left = [], 0, 0
        self.passed = None

    def keep(self, request):
        return Keep(1000, 10.0, passes_on=True) if request.target != "/passed" else None

    def hold(self, request, size):
        pass

    def drop(self, request):
        pass

    def begin(self, request, respond):
        if request.target == "/short":
            return Response(200, {}, b"short")
        if request.target == "/passed":
            return None
        self.held.append(respond)
        return self

    def leave(self):
        self.held.clear()
        self.left += 1

    def release(self):
        while self.held:
            self.held.pop()(Response(200, {}, b"held"))

    def refusal(self, request, error):
        return refusal(error if isinstance(error, Rejected) else Rejected(500, "internal"), "id")

    async def pass_on(self, request):
        self.passing += 1
        try:
            return await self.passed(request)
        except asyncio.CancelledError:
            self.left += 1
            raise
        finally:
            self.passing -= 1

    async def emptied(self):
        await until(lambda: not (self.held or self.passing))


class Edge:
    """A server on a socket of some kind, and its clients."""

    def __init__(self, kind, folder, authority):
        self.handler = Handler()
        self.server = server.Server(self.handler)
        self._authority, self._tls = authority, None
        if kind == "Unix":
            self._listening = socket.socket(socket.AF_UNIX)
            self._listening.bind(str(folder / "s"))
        else:
            self._listening = socket.create_server(("127.0.0.1", 0))
        for direction in DIRECTIONS:  # accepted sockets have the same
            self._listening.setsockopt(socket.SOL_SOCKET, direction, BUFFERED)
        self._where = self._listening.getsockname()
        if kind == "inherited":
            self._listening = socket.socket(fileno=os.dup(self._listening.detach()))
        if kind == "TLS":
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            authority.issue_cert("127.0.0.1").configure_cert(self._tls)

    async def open(self):
        await self.server.open("127.0.0.1", 0, self._listening, self._tls)

    @property
    def connection(self):
        [connection] = self.server._connections
        return connection

    @asynccontextmanager
    async def connected(self):
        tls = None
        if self._tls is not None:
            tls = ssl.create_default_context()
            self._authority.configure_trust(tls)
        if isinstance(self._where, str):
            opened = asyncio.open_unix_connection(self._where)
        else:
            opened = asyncio.open_connection(*self._where, ssl=tls)
        reader, writer = await opened
        for direction in DIRECTIONS:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, direction, BUFFERED)
        try:
            yield Streams(reader, writer)
        finally:
            writer.transport.abort()


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(params=product(LOOPS, SOCKETS), ids=" ".join)
def tell(request, tmp_path, authority):
    """Tell a story of a server and a client."""
    loop, kind = request.param

    async def begin(story):
        edge = Edge(kind, tmp_path, authority)
        await edge.open()
        try:
            async with asyncio.timeout(60), edge.connected() as client:
                await story(edge, client)
        finally:
            edge.handler.release()
            await edge.server.aclose()

    def run(story):
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(begin(story))

    return run


async def sent(client, size, byte=b"x"):
    """Send so many bytes, as fast as they are taken."""
    for _ in range(0, size, 2**13):
        client.writer.write(byte * 2**13)
        await client.writer.drain()


# ------------------------------------------------------------------------ what aiohttp does itself


def test_an_answer_of_aiohttps_own_ends_the_connection(tell, monkeypatch):
    """It says 400 where its limits are narrower than ours: nothing else is asked on it."""
    monkeypatch.setattr(server, "_HEAD", 100)
    monkeypatch.setattr(limits, "LINGERING", 0.1)  # a half of TLS can't be closed

    async def story(edge, client):
        client.writer.write(
            b"GET /passed HTTP/1.1\r\nHost: us\r\nA: %b\r\n\r\n" % (b"a" * 200) + GET
        )
        said = await client.reader.read()
        assert (said.count(b"HTTP/1."), said.split()[1]) == (1, b"400")
        assert edge.handler.passing == 0

    tell(story)


def test_no_timer_of_aiohttps_closes_a_connection(tell, monkeypatch):
    """Each request that is passed on has a protocol of its own, which ends with it."""
    monkeypatch.setattr(server.web, "Server", partial(web.Server, keepalive_timeout=0.01))

    async def story(edge, client):
        async def passed(request):
            return web.Response(text="passed")

        edge.handler.passed = passed
        for request, answer in [(PASS, b"passed"), (GET, b"short")] * 2:
            client.writer.write(request)
            assert (await client.answer())[1] == answer
            await asyncio.sleep(0.05)
            assert not edge.server._aiohttp.connections

    tell(story)


@pytest.mark.parametrize("body", [b"", b"some of it"], ids=["whole", "a body arrives"])
@pytest.mark.parametrize("way", ["hangs up", "sends no more"])
def test_what_is_passed_on_ends_when_its_client_leaves(tell, way, body):
    """Whether it is still read or answered: aiohttp is told, and cancels it."""

    async def story(edge, client):
        async def passed(request):
            await request.read()
            await edge.handler.gate.wait()

        edge.handler.passed = passed
        client.writer.write(UPLOAD % 99 + body if body else PASS)
        await until(lambda: edge.handler.passing)
        if way == "hangs up":
            client.writer.transport.abort()
        elif client.writer.can_write_eof():
            client.writer.write_eof()
        else:
            client.writer.close()
        await until(lambda: not edge.server._connections)
        await until(lambda: edge.handler.left)

    tell(story)


@pytest.mark.parametrize("sent", [HOLD + GET * 5, WISH + b"..."], ids=["requests", "a tunnel"])
def test_a_client_that_leaves_is_noticed_though_nothing_is_read(tell, monkeypatch, sent):
    """Requests wait for their turn, or bytes for another protocol: after 15 s at the latest."""
    monkeypatch.setattr(limits, "IDLE", 0.05)

    async def story(edge, client):
        client.writer.write(sent)
        await until(lambda: edge.server._connections and not edge.connection._back_pressure.reads)
        await asyncio.sleep(0.1)
        assert not edge.handler.left
        client.writer.transport.abort()
        await until(lambda: not edge.server._connections)
        assert edge.handler.left == 1

    tell(story)


def test_http_1_0_is_passed_on_as_such(tell):
    """A stream is as long as the connection, for it knows no chunks."""

    async def story(edge, client):
        async def passed(request):
            assert request.version == HttpVersion10
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(await request.read())
            return response

        edge.handler.passed = passed
        client.writer.write((UPLOAD % 2).replace(b"1.1", b"1.0") + b"12")
        head, _, body = (await client.reader.read()).partition(b"\r\n\r\n")
        assert (head[:12], b"chunked" in head, body) == (b"HTTP/1.0 200", False, b"12")

    tell(story)


# --------------------------------------------------------------------------- what each one may cost


def test_what_one_read_brings_is_bounded(tell):
    """So is what waits behind a request, though a client sends thousands at once."""

    async def story(edge, client):
        client.writer.write(HOLD)
        await until(lambda: edge.handler.held)
        client.writer.write(GET * 3000)
        await until(lambda: not edge.connection._back_pressure.reads)
        await asyncio.sleep(0.02)
        assert edge.server.requests_count <= 2 + limits.READ // len(GET)
        edge.handler.release()
        for number in range(3001):
            assert (await client.answer())[1] == (b"short" if number else b"held")

    tell(story)


def test_an_upload_waits_for_its_reader(tell):
    """What is passed on is read as fast as it is taken."""

    async def story(edge, client):
        async def passed(request):
            await edge.handler.gate.wait()
            size = 0
            async for piece in request.content.iter_any():
                size += len(piece)
            return web.Response(text=str(size))

        edge.handler.passed = passed
        client.writer.write(UPLOAD % MUCH)
        sending = asyncio.ensure_future(sent(client, MUCH))
        await until(lambda: edge.server._connections and not edge.connection._back_pressure.reads)
        await asyncio.sleep(0.02)
        assert edge.connection._framing.arriving.size <= HELD
        assert not sending.done()
        edge.handler.gate.set()
        assert (await client.answer())[1] == b"%d" % MUCH
        await sending

    tell(story)


def test_a_streamed_answer_waits_for_its_client(tell):
    """What is not read is not written."""

    async def story(edge, client):
        written = 0

        async def passed(request):
            nonlocal written
            response = web.StreamResponse(headers={"Content-Length": str(MUCH)})
            await response.prepare(request)
            while written < MUCH:
                written += 2**16
                await response.write(bytes(2**16))
            return response

        edge.handler.passed = passed
        client.writer.transport.pause_reading()
        client.writer.write(PASS)
        await until(lambda: edge.server._connections and edge.connection._holds_writing)
        await asyncio.sleep(0.02)
        assert edge.connection._transport.get_write_buffer_size() <= 3 * limits.UNREAD
        assert written <= HELD
        client.writer.transport.resume_reading()
        assert (await client.answer())[1] == bytes(MUCH)

    tell(story)


def test_bodies_that_arrive_at_once_are_kept_apart(tell):
    """All connections are read into one buffer."""

    async def story(edge, _):
        async def passed(request):
            return web.Response(body=await request.read())

        async def ask(number):
            async with edge.connected() as client:
                client.writer.write(UPLOAD % 2**19)
                await sent(client, 2**19, bytes([number]))
                assert (await client.answer())[1] == bytes([number]) * 2**19

        edge.handler.passed = passed
        await asyncio.gather(*map(ask, range(5)))

    tell(story)


# -------------------------------------------------------------------------------------- how it ends


def test_connections_end_with_the_answers_under_way(tell):
    """Those of ours, and those that are passed on; one that asks nothing ends at once."""

    async def story(edge, idle):
        async def passed(request):
            await edge.handler.gate.wait()
            return web.Response(text="passed")

        edge.handler.passed = passed
        async with edge.connected() as ours, edge.connected() as theirs:
            ours.writer.write(HOLD)
            theirs.writer.write(PASS)
            await until(lambda: edge.handler.held and edge.handler.passing)
            closing = asyncio.ensure_future(edge.server.aclose())
            await asyncio.sleep(0)
            edge.handler.draining = True
            edge.handler.gate.set()
            edge.handler.release()
            for each, body in ((ours, b"held"), (theirs, b"passed")):
                assert (await each.answer())[1] == body
            for each in (ours, theirs, idle):
                assert await each.reader.read() == b""
            await closing
        assert not edge.server._connections

    tell(story)
