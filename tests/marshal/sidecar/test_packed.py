"""A Python web application that wants lists of whole requests, behind a sidecar and without one."""

import asyncio
import threading

import aiohttp
import pytest
from yarl import URL

from adaptive_batching.contrib.packed import PackedRequests, Response
from adaptive_batching.errors import BatchFunctionError
from adaptive_batching.wire.packed import Packed
from adaptive_batching.wire.whole_requests import MARK, WholeRequest, pack, unpack_responses
from tests.marshal.sidecar.peers.asgi import served
from tests.marshal.sidecar.peers.raw import connect, parsed
from tests.workers.conditions import until

SECRET = "between us"


async def elsewhere(scope, receive, send):
    """The application within: it says what it was asked."""
    headers = [(b"x-marked", b"yes" if MARK.encode() in dict(scope["headers"]) else b"no")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


class Shouting:
    """A plain function: answers in capitals, with a status and a cookie for each."""

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()

    def handle_batch(self, requests):
        self.batches.append(requests)
        assert self.gate.wait(5)
        return [
            Response(
                request.body.upper() + b"?" + request.query.encode(),
                400 if request.body == b"bad" else 200,
                [(b"set-cookie", b"who=" + request.body), (b"set-cookie", b"b=c")],
            )
            for request in requests
        ]


@pytest.fixture
def shouting():
    handler = Shouting()
    yield handler
    handler.gate.set()


async def test_requests_share_a_batch(before, shouting):
    """The application gets them in one list, with their headers; each client its own answer."""
    app = PackedRequests(elsewhere, {"/shout": shouting.handle_batch}, secret=SECRET)
    async with served(app) as url, aiohttp.ClientSession() as session:
        client = await before(server=URL(url), form=Packed(SECRET))

        async def shout(word):
            headers = {"X-Word": word, MARK: "forged"}
            target = f"{client.url}/shout?a=1"
            async with session.post(target, data=word, headers=headers) as response:
                cookies = response.headers.getall("Set-Cookie")
                return response.status, await response.text(), cookies

        tasks = [asyncio.ensure_future(shout("one"))]
        await until(lambda: shouting.batches)
        tasks += [asyncio.ensure_future(shout(word)) for word in ("two", "bad", "four")]
        await until(lambda: client.running.dispatchers["models"].stats().queued == 3)
        shouting.gate.set()
        answers = await asyncio.gather(*tasks)
        assert answers == [
            (200, "ONE?a=1", ["who=one", "b=c"]),
            (200, "TWO?a=1", ["who=two", "b=c"]),
            (400, "BAD?a=1", ["who=bad", "b=c"]),
            (200, "FOUR?a=1", ["who=four", "b=c"]),
        ]
        assert [len(batch) for batch in shouting.batches] == [1, 3]
        assert [dict(each.headers)[b"x-word"] for each in shouting.batches[1]] == [
            b"two",
            b"bad",
            b"four",
        ]
        async with session.get(f"{client.url}/other", headers={MARK: SECRET}) as response:
            assert (await response.text(), response.headers["X-Marked"]) == ("/other", "no")


async def test_requests_of_all_paths_share_a_batch(before):
    """If the application has a place for them: methods, paths and queries differ, each is answered
    for itself; what has no body is passed on.
    """
    batches, gate = [], asyncio.Event()

    async def handle_batch(requests):
        batches.append(requests)
        await gate.wait()
        return [
            Response(f"{each.method} {each.path}?{each.query} ".encode() + each.body)
            for each in requests
        ]

    app = PackedRequests(elsewhere, {"/batch": handle_batch}, secret=SECRET)
    async with served(app) as url, aiohttp.ClientSession() as session:
        client = await before(server=URL(url), form=Packed(SECRET, "/batch"))

        async def ask(method, target, body):
            async with session.request(method, f"{client.url}{target}", data=body) as response:
                return response.status, await response.text()

        tasks = [asyncio.ensure_future(ask("POST", "/a", "one"))]
        await until(lambda: batches)
        others = [("POST", "/a?x=1", "two"), ("PUT", "/b/c", "three"), ("POST", "/batch", "four")]
        tasks += [asyncio.ensure_future(ask(*each)) for each in others]
        await until(lambda: client.running.dispatchers["models"].stats().queued == 3)
        gate.set()
        assert await asyncio.gather(*tasks) == [
            (200, "POST /a? one"),
            (200, "POST /a?x=1 two"),
            (200, "PUT /b/c? three"),
            (200, "POST /batch? four"),
        ]
        assert [len(batch) for batch in batches] == [1, 3]
        assert await ask("DELETE", "/b/c", None) == (200, "/b/c")


async def test_t1_no_response_becomes_two(before):
    """Neither what follows one that has no body, nor a header, answers the next request."""
    forged = b"HTTP/1.1 200 OK\r\n\r\n"
    responses = {
        b"204": Response(forged, 204),
        b"304": Response(forged, 304),
        b"two": Response(b"", 200, [(b"a", b"b\r\n\r\n" + forged)]),
    }

    async def handle_batch(requests):
        return [responses[each.body] for each in requests]

    app = PackedRequests(elsewhere, {"/shout": handle_batch}, secret=SECRET)
    async with served(app) as url:
        client = await before(server=URL(url), form=Packed(SECRET))
        reader, writer = await connect(client.url)
        said = b""
        for body, end in zip(responses, (b"\r\n\r\n", b"\r\n\r\n", b'"}'), strict=True):
            writer.write(b"POST /shout HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n" + body)
            said += await reader.readuntil(end)
        writer.close()
    *bodiless, broken = parsed(said)
    assert [each.status for each in (*bodiless, broken)] == [204, 304, 502]
    assert not any("Content-Length" in each.headers for each in bodiless)
    assert b"upstream_broken" in broken.body


async def test_headers_of_any_bytes_stay_what_they_are(before):
    """In requests and responses; names of files come in UTF-8, and in what was before it."""

    async def handle_batch(requests):
        names = [dict(each.headers)[b"x-file"] for each in requests]
        return [Response(b"", 200, [(b"x-file", name)]) for name in names]

    app = PackedRequests(elsewhere, {"/shout": handle_batch}, secret=SECRET)
    async with served(app) as url:
        client = await before(server=URL(url), form=Packed(SECRET))
        reader, writer = await connect(client.url)
        for name in ("café".encode(), b"caf\xe9"):
            head = b"POST /shout HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nX-File: "
            writer.write(head + name + b"\r\n\r\n")
            assert b"x-file: " + name + b"\r\n" in await reader.readuntil(b"\r\n\r\n")
        writer.close()


@pytest.mark.parametrize("path", ["batch", "", "/a b", "/a\n"])
def test_a_packed_path_that_is_none(path):
    """It is told."""
    with pytest.raises(
        ValueError, match="packed_path: expected a path for packed requests, such as /batch"
    ):
        Packed(SECRET, path)


async def post(session, url, body, **headers):
    async with session.post(f"{url}/shout", data=body, headers=headers) as response:
        return response.status, await response.read()


async def test_who_may_pack(shouting, tmp_path):
    """Who knows the secret, or comes through a Unix socket; others send one at a time."""
    shouting.gate.set()
    handlers = {"/shout": shouting.handle_batch}
    packed = pack([WholeRequest("POST", "/shout", "", [], b"a")] * 2)
    async with (
        served(PackedRequests(elsewhere, handlers)) as bare,
        served(PackedRequests(elsewhere, handlers, secret=SECRET)) as secured,
        aiohttp.ClientSession() as session,
    ):
        for url, mark in ((bare, "1"), (secured, "1"), (secured, SECRET[:-1])):
            status, _ = await post(session, url, packed, **{MARK: mark})
            assert status == 403
            assert await post(session, url, b"a") == (200, b"A?")
        status, body = await post(session, secured, packed, **{MARK: SECRET})
        assert (status, len(unpack_responses(body))) == (200, 2)
    connector = aiohttp.UnixConnector(str(tmp_path / "app"))
    async with (
        served(PackedRequests(elsewhere, handlers), str(tmp_path / "app")),
        aiohttp.ClientSession(connector=connector) as session,
    ):
        status, body = await post(session, "http://app", packed, **{MARK: "1"})
        assert (status, len(unpack_responses(body))) == (200, 2)


async def test_a_wrong_secret_is_in_the_log(before, shouting, caplog):
    """Once, for clients see a 403 and can't help it."""
    shouting.gate.set()
    handlers = {"/shout": shouting.handle_batch}
    told = "'/shout': the application does not accept packed requests from here, and answers 403"
    async with served(PackedRequests(elsewhere, handlers, secret=SECRET)) as url:
        client = await before(server=URL(url), form=Packed("wrong"))
        for _ in range(3):
            assert (await post(client.session, client.url, b"a"))[0] == 403
        assert caplog.text.count(told) == 1
        good = await before(server=URL(url), form=Packed(SECRET))
        assert (await post(good.session, good.url, b"a"))[0] == 200
    assert caplog.text.count(told) == 1


async def test_bodies_that_are_not_packed(shouting):
    """What says that it is packed and is not, and what is too large, is refused."""
    app = PackedRequests(elsewhere, {"/shout": shouting.handle_batch}, secret="s", max_body=100)
    async with served(app) as url, aiohttp.ClientSession() as session:
        status, told = await post(session, url, b"not packed", **{MARK: "s"})
        assert (status, told.startswith(b"expected packed requests")) == (400, True)
        assert (await post(session, url, b"x" * 101))[0] == 413
    assert shouting.batches == []


async def test_a_handler_that_forgets_one():
    """Nobody gets another's response; the server reports the error as any other."""

    async def forgetful(requests):
        return []

    async def receive():
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
    with pytest.raises(BatchFunctionError, match="expected 1 responses, got 0"):
        await PackedRequests(elsewhere, {"/": forgetful})(scope, receive, None)
