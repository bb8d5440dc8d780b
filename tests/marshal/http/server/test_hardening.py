"""What clients do by mistake or on purpose: one answer, in one form, and the service goes on."""

import asyncio
import gzip
import json
import resource
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import http_parser
from yarl import URL

from adaptive_batching.errors import UsageError
from adaptive_batching.instrumentation import log_rate_limit
from adaptive_batching.marshal.http.server.server import check_parser
from adaptive_batching.marshal.service.service import Service
from tests.instrumentation.exposed import series
from tests.marshal.client import client_of, until


@pytest.fixture
async def client(request):
    """A service that gives back what it gets, up to 1 kB; the time for it is a test's parameter."""
    service = Service(body_timeout=getattr(request, "param", 60.0))
    calls = []

    @service.endpoint("/echo", max_body=1000)
    async def echo(items):
        calls.append(items)
        return items

    async with client_of(service) as client:
        client.calls = calls
        yield client
        assert (await client.post("/echo", "still here")).json == "still here"


def answers_in(stream: bytes):
    """The statuses and error codes of all answers on a connection."""
    answers = []
    while stream:
        head, _, rest = stream.partition(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if b"Content-Length" in line
        )
        body, stream = json.loads(rest[:length]), rest[length:]
        code = body["error"] if isinstance(body, dict) else body
        answers.append((int(head.split()[1]), code))
    return answers


def request(*headers: bytes, line=b"POST /echo HTTP/1.1", body=b"1"):
    return b"\r\n".join([line, b"Host: here", *headers, b"", body])


LENGTH = b"Content-Length: 1"

UNSPEAKABLE = {
    "length and chunks": request(
        LENGTH, b"Transfer-Encoding: chunked", body=b"1\r\n1\r\n0\r\n\r\n"
    ),
    "two lengths": request(LENGTH, b"Content-Length: 2", body=b"12"),
    "a length with a sign": request(b"Content-Length: +1"),
    "an unknown coding": request(b"Transfer-Encoding: xchunked"),
    "a chunked that is not last": request(b"Transfer-Encoding: chunked, identity"),
    "a coding before chunked": request(
        b"Transfer-Encoding: gzip, chunked", body=b"1\r\n1\r\n0\r\n\r\n"
    ),
    "no coding before chunked": request(
        b"Transfer-Encoding: identity,chunked", body=b"1\r\n1\r\n0\r\n\r\n"
    ),
    "a space before the colon": request(b"Transfer-Encoding : chunked"),
    "a folded header": request(LENGTH, b"A: b", b" c"),
    "a fragment": request(LENGTH, line=b"POST /echo#x HTTP/1.1"),
    "no host": b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\n\r\n1",
    "two hosts": request(LENGTH, b"Host: there"),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "nonsense": b"hello\r\n\r\n",
    "a bad chunk": request(b"Transfer-Encoding: chunked", body=b"zz\r\n1\r\n0\r\n\r\n"),
    "a huge chunk": request(b"Transfer-Encoding: chunked", body=b"f" * 17 + b"\r\n1"),
    "chunks in HTTP/1.0": request(
        b"Transfer-Encoding: chunked", line=b"POST /echo HTTP/1.0", body=b"1\r\n1\r\n0\r\n\r\n"
    ),
}


@pytest.mark.parametrize("message", UNSPEAKABLE.values(), ids=UNSPEAKABLE)
async def test_malformed_messages_get_one_400(client, message):
    """And the end of the connection: what follows could be a smuggled request."""
    assert answers_in(await client.raw(message)) == [(400, "malformed")]
    assert client.calls == []


@pytest.mark.parametrize("version", [b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.2"])
async def test_only_http_1_0_and_1_1(client, version):
    """Other versions are refused, not imitated."""
    [(status, _)] = answers_in(await client.raw(request(LENGTH, line=b"POST /echo " + version)))
    assert status in {400, 505}
    assert client.calls == []


async def test_http_1_0(client):
    """It is spoken still, by probes and by ab."""
    assert answers_in(await client.raw(request(LENGTH, line=b"POST /echo HTTP/1.0"))) == [(200, 1)]


async def test_pipelined_requests_are_answered_in_order(client):
    """All of them, the last closes."""
    requests = [request(LENGTH, body=b"%d" % n) for n in range(9)]
    last = request(LENGTH, b"Connection: close", body=b"9")
    assert answers_in(await client.raw(*requests, last)) == [(200, n) for n in range(10)]


async def test_the_absolute_form_chooses_nothing(client):
    """Only the path counts."""
    message = request(LENGTH, b"Connection: close", line=b"POST http://evil/echo HTTP/1.1")
    assert answers_in(await client.raw(message)) == [(200, 1)]


async def test_expect_continue(client):
    """It is what curl waits for before it sends a large body."""
    message = request(b"Content-Length: 1", b"Expect: 100-continue", b"Connection: close", body=b"")
    interim, _, final = (await client.raw(message, b"1")).partition(b"\r\n\r\n")
    if interim != b"HTTP/1.1 100 Continue":  # the body was there before anybody asked
        final = interim + b"\r\n\r\n" + final
    assert answers_in(final) == [(200, 1)]


# ------------------------------------------------------------------------------------------ bodies


async def test_a_body_that_is_announced_too_large_is_not_read(client):
    """The refusal comes at once, whatever is still to come."""
    message = request(b"Content-Length: 999999999999", body=b"123")
    assert answers_in(await client.raw(message, end=b"}")) == [(413, "body_too_large")]


async def test_bodies_too_large(client):
    """In one piece, and in chunks that announce nothing."""
    large = b'"' + b"a" * 999 + b'"'
    assert (await client.post("/echo", large)).error == "body_too_large"

    async def drips():
        for _ in range(1001):
            yield b"1"

    answer = await client.send("POST", "/echo", data=drips())
    assert (answer.status, answer.error) == (413, "body_too_large")
    assert (await client.post("/echo", large[1:])).status == 400
    assert (await client.post("/echo", b'"' + large[2:])).status == 200


async def test_a_body_that_comes_bit_by_bit(client):
    """Waiting for the rest is part of the service."""

    async def pieces():
        for piece in (b"[1", b", ", b"2]"):
            yield piece
            await asyncio.sleep(0.01)

    assert (await client.send("POST", "/echo", data=pieces())).json == [1, 2]


async def test_a_flood_of_tiny_chunks_is_cut_off(client):
    """3 MB of one-byte chunks brought another server down."""
    head = request(b"Transfer-Encoding: chunked", body=b"")
    flood = b"1\r\n1\r\n" * 500_000
    try:
        answer = await client.raw(head, flood, end=b"}")
    except ConnectionError:
        return  # closed while we still sent
    assert answers_in(answer) == [(413, "body_too_large")]


@pytest.mark.parametrize("client", [0.3], indirect=True)
async def test_a_body_that_does_not_come(client):
    """It has its time, then the connection is closed."""
    message = request(b"Content-Length: 10", body=b"123")
    assert answers_in(await client.raw(message, end=b"}")) == [(408, "body_timeout")]


async def test_half_a_body_and_a_goodbye(client):
    """A client that leaves is nobody to answer to, and no item."""
    await client.raw(request(b"Content-Length: 10", body=b"123"), eof=True)
    assert client.calls == []


async def test_compressed_bodies_are_refused(client):
    """Unread: there is nothing to gain from inflating a bomb."""
    for coding in ("gzip", "deflate", "br", "gzip, gzip", "identity, gzip", ""):
        bomb = gzip.compress(bytes(100_000))
        headers = {"Content-Encoding": coding}
        answer = await client.post("/echo", bomb, headers=headers)
        assert (answer.status, answer.error) == (415, "unsupported_encoding")
    assert client.calls == []


async def test_a_body_may_say_that_it_is_not_compressed(client):
    """Which is what `identity` means, however it is written."""
    for coding in ("identity", "Identity", "identity, identity"):
        answer = await client.post("/echo", 1, headers={"Content-Encoding": coding})
        assert (answer.status, answer.json) == (200, 1)


# ------------------------------------------------------------------------- paths, methods, headers


async def test_unknown_paths_and_wrong_methods(client):
    """The form is the same for all; the last says what would be right."""
    for path in ("/nope", "/echo/", "/ECHO", "//echo", "/echo%00"):
        answer = await client.post(path, 1)
        assert (answer.status, answer.error) == (404, "not_found")
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        answer = await client.send(method, "/echo")
        assert (answer.status, answer.error) == (405, "method_not_allowed")
        assert answer.headers["Allow"] == "POST"
    answer = await client.post("/metrics", 1)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


async def test_request_ids(client):
    """A harmless one is kept, for good answers and bad; others are replaced."""
    for path, status in (("/echo", 200), ("/nope", 404)):
        answer = await client.post(path, 1, headers={"X-Request-Id": "Order-66"})
        assert (answer.status, answer.headers["X-Request-Id"]) == (status, "Order-66")
    for harmful in ("a b", "<script>", "a" * 65, "", "é"):
        answer = await client.post("/nope", 1, headers={"X-Request-Id": harmful})
        given = answer.headers["X-Request-Id"]
        assert given == answer.json["request_id"] != harmful


def test_the_python_parser_is_refused(monkeypatch):
    """Requests are smuggled through it more easily."""
    check_parser()
    monkeypatch.delattr(http_parser, "HttpRequestParserC")
    with pytest.raises(UsageError, match="C extension"):
        check_parser()


async def test_connections_stay_below_the_limit_of_open_files(monkeypatch):
    """One too many is dropped; when others have gone, there is room again."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (4, 4))
    async with client_of(Service()) as client, AsyncExitStack() as others:
        for _ in range(3):
            await others.enter_async_context(connected(client))
        with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
            await client.get("/healthz")
        await others.aclose()
        await until_answered(client)


async def test_connections_that_are_dropped_are_told_to_operators(monkeypatch, caplog):
    """The first at once, how many more there were when it is over, and all in the metrics."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (4, 4))
    monkeypatch.setattr(log_rate_limit, "_QUIET", 0.5)
    async with client_of(Service()) as client, AsyncExitStack() as others:
        for _ in range(3 + 5):
            await others.enter_async_context(connected(client))
        await until(lambda: len(caplog.messages) == 2)
        first, more = caplog.messages
        assert first.startswith("a connection was dropped: 3 are open")
        assert more.startswith("4 more connections were dropped within ")
        told = series(client.running.metrics.exposition("")[0].decode())
        assert told["connections_dropped_total",] == 5


async def until_answered(client):
    """Try until there is room."""
    while True:
        with suppress(aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            return await client.get("/healthz")


@asynccontextmanager
async def connected(client):
    """A connection that asks nothing."""
    url = URL(client.running.url)
    _, writer = await asyncio.open_connection(url.host, url.port)
    yield
    writer.close()


async def test_too_many_at_a_time():
    """A cap on what is in flight keeps the bodies within memory."""
    service = Service(max_in_flight=1)
    answering = asyncio.Event()

    @service.endpoint("/wait")
    async def wait(items):
        await answering.wait()
        return items

    async with client_of(service) as client:
        first = asyncio.create_task(client.post("/wait", 1))
        await until(lambda: client.stats("/wait").running)
        second = await client.post("/wait", 2)
        assert (second.status, second.error) == (503, "overloaded")
        assert int(second.headers["Retry-After"]) >= 1
        answering.set()
        assert (await first).json == 1
