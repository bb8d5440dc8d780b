"""Streams of requests, cut anywhere, are answered as each request by itself."""

import asyncio
import itertools
import random
import re

import pytest

from tests.marshal.client import client_of, until
from tests.marshal.http.server.held import Held, connected

_NAMES = re.compile(rb'(?<="request_id":")[^"]*')
_LAST = {
    "the end": b"GET /healthz HTTP/1.1\r\nHost: us\r\nConnection: close\r\n\r\n",
    "no request": b"NONSENSE\r\n\r\n",
    "HTTP/1.0": b"POST /echo HTTP/1.0\r\nContent-Length: 1\r\n\r\n1",
    "no chunk": b"POST /echo HTTP/1.1\r\nHost: us\r\nTransfer-Encoding: chunked\r\n\r\nz",
}


def drawn(draw, number):
    """One request after which its connection stays open; no two have the same answer."""
    method = draw.choice([b"POST"] * 9 + [b"PUT"])
    path = draw.choice(
        [b"/echo"] * 6 + [b"/raw", b"/echo?a=b", b"/%65cho", b"/nowhere", b"/healthz"]
    )
    body = draw.choice([b"%d", b"%d", b"%d", b'"%d"', b'"fail"', b"nonsense %d"])
    body = body % number if b"%" in body else body
    more = draw.choice([b"", b"", b"X-Request-Id: a-%d\r\n" % number, b"Accept: image/png\r\n"])
    head = b"%b %b HTTP/1.1\r\nHost: us\r\n%b" % (method, path, more)
    if draw.random() < 0.3:
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def cut(draw, requests):
    """Each by itself, all at once, or wherever it may be."""
    stream = b"".join(requests)
    places = draw.sample(range(1, len(stream)), draw.choice([0, 1, 3, 9]))
    if draw.random() < 0.3:
        places = list(itertools.accumulate(map(len, requests)))
    return [stream[a:b] for a, b in itertools.pairwise(sorted({0, *places, len(stream)}))]


async def answers_to(client, pieces, count, last):
    """What is said to some requests, and then to one that ends the connection."""
    async with connected(client) as streams:
        for piece in pieces:
            streams.writer.write(piece)
            await asyncio.sleep(0)
        answers = [await streams.answer() for _ in range(count)]
        streams.writer.write(last)
        answers.append(await streams.answer())
        assert await streams.reader.read() == b""
    return [(head.split()[1], _NAMES.sub(b"", body)) for head, body in answers]


@pytest.mark.parametrize("last", _LAST.values(), ids=_LAST)
async def test_all_are_answered_in_their_order_and_as_ever(last):
    """However many come at a time, and in whatever pieces."""
    held, draw = Held(), random.Random(7)
    held.gate.set()
    streams = []
    for _ in range(60):
        requests = [drawn(draw, number) for number in range(draw.choice([1, 2, 4, 40]))]
        streams.append(requests)
    async with client_of(held.service) as client:
        for requests in streams:
            together = await answers_to(client, cut(draw, requests), len(requests), last)
            alone = [await answers_to(client, [], 0, last)]
            for request in requests:
                (answer, _) = await answers_to(client, [request], 1, _LAST["the end"])
                alone.insert(-1, [answer])
            assert together == [answer for each in alone for answer in each]


async def test_a_client_that_leaves_anywhere_leaves_nothing_behind():
    """Requests that wait, that run and that are not all there are forgotten with their client."""
    held, draw = Held(), random.Random(7)
    async with client_of(held.service) as client:
        router = client.running._router
        for number in range(40):
            pieces = cut(draw, [drawn(draw, number) for _ in range(draw.choice([1, 2, 4]))])
            async with connected(client) as streams:
                for piece in pieces[: draw.randint(1, len(pieces))]:
                    streams.writer.write(piece)
                    await asyncio.sleep(draw.choice([0, 0.001]))
                if number % 2:
                    streams.writer.write_eof()
        await until(lambda: not router.in_flight)
        held.gate.set()
        assert router.held.held == 0
        await until(lambda: not client.stats("/echo").running)
        assert client.stats("/echo").queued == 0
        assert (await client.post("/echo", 1)).json == 1
