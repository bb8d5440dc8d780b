"""Clients that send their next request before they have the answer to the last one."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from tests.marshal.client import client_of, until
from tests.marshal.http.test_fast_path import (
    Held,
    connected,
    connection_of,
    connections_of,
    use_the_usual_path,
)


def in_chunks(path, body, trailers=b""):
    lines = [b"POST %b HTTP/1.1" % path, b"Host: us", b"Transfer-Encoding: chunked", b""]
    return b"\r\n".join([*lines, b"%x" % len(body), body, b"0", trailers + b"\r\n"])


def opened():
    """A service whose gate is open."""
    held = Held()
    held.gate.set()
    return held.service


@asynccontextmanager
async def conversation(service, *, usual):
    """A client of a service, on one path or the other, and a connection to it."""
    async with client_of(service) as client:
        if usual:
            use_the_usual_path(client)
        async with connected(client) as streams:
            yield client, streams


async def test_t1_a_request_may_begin_where_one_in_chunks_ends():
    """Wherever what is read at a time ends: no part of a header becomes a request."""
    async with client_of(opened()) as client, connected(client) as streams:
        streams.writer.write(in_chunks(b"/echo", b"1") + b"POST /echo HTTP/1.1\r\nX: ")
        assert (await streams.answer())[1] == b"1"
        streams.post(b"/raw", b"2")
        head, body = await streams.answer()
        assert (body, b"\r\nContent-Type: application/json\r\n" in head) == (b"2", True)


@pytest.mark.parametrize(("trailers", "status"), [(b"A: b\r\n", b"400"), (b"", b"200")])
async def test_t1_trailers_are_not_those_of_who_comes_in_pieces(trailers, status):
    """Nobody could tell any more which headers are whose."""
    async with client_of(opened()) as client, connected(client) as streams:
        streams.writer.write(in_chunks(b"/echo", b"1", trailers) + b"POST /echo HTTP/1.1\r\nHos")
        assert (await streams.answer())[1] == b"1"
        streams.writer.write(b"t: us\r\nContent-Length: 1\r\n\r\n2")
        assert (await streams.answer())[0].split()[1] == status


FOLLOWING = [b"POST /echo HTTP/1.1", b"X-Request-Id:mine ", b"Host: us", b"Content-Length: 1"]
TRAILER = b"X-Request-Id: theirs"


@pytest.mark.parametrize(
    "body",
    [
        b"1",
        FOLLOWING[0] + b"\r\nX-Request-Id",
        b"\r\n".join([FOLLOWING[0], TRAILER, *FOLLOWING[1:], b"", b""]),
    ],
)
@pytest.mark.parametrize("trailers", [b"", TRAILER + b"\r\n", b"A: b\r\n" + TRAILER + b"\r\n"])
async def test_t1_no_body_hides_a_trailer(body, trailers):
    """Be it the next head, be it what the parser would make of that."""
    following = b"\r\n".join([*FOLLOWING, b"", b"2"])
    async with client_of(opened()) as client, connected(client) as streams:
        streams.writer.write(in_chunks(b"/raw", body, trailers) + following)
        assert (await streams.answer())[1] == body
        head, answer = await streams.answer()
        if trailers:  # which the parser makes a header of the second
            assert b" 400 " in head
        else:
            assert (b"X-Request-Id: mine" in head, answer) == (True, b"2")


async def test_what_waits_behind_one_in_chunks_is_answered():
    """No more than 32 are parsed at a time: the last of them may be in chunks."""
    async with client_of(opened()) as client, connected(client) as streams:
        for number in range(100):
            streams.writer.write(in_chunks(b"/echo", b"%d" % number))
        for number in range(100):
            assert (await streams.answer())[1] == b"%d" % number


@pytest.mark.parametrize("usual", [False, True])
async def test_a_body_that_comes_late_holds_up_nobody_later(usual):
    """Its request is begun without it; more than are parsed at a time may follow."""
    async with conversation(opened(), usual=usual) as (client, streams):
        await write_each(client, streams, [WITHOUT_BODY])
        await until(lambda: connection_of(client)._request_in_progress)
        streams.writer.write(b"1")
        assert (await streams.answer())[1] == b"1"
        streams.writer.write(MORE * 40)
        for _ in range(40):
            assert b" 200 " in (await streams.answer())[0]


WITHOUT_BODY = b"POST /raw HTTP/1.1\r\nHost: us\r\nContent-Length: 1\r\n\r\n"
WISH = b"POST /raw HTTP/1.1\r\nHost: us\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
MORE = b"GET /healthz HTTP/1.1\r\nHost: us\r\n\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [WISH + b"Content-Length: 2\r\n\r\n12", MORE],
        [WISH + b"Content-Length: 2\r\n\r\n1", b"2", MORE],
        [WISH + b"Content-Length: 2\r\n\r\n", b"12", MORE],
    ],
)
async def test_who_wishes_for_http2_keeps_the_connection(pieces):
    """Some clients do with each request."""
    async with client_of(opened()) as client, connected(client) as streams:
        *first, more = pieces
        await write_each(client, streams, first)
        assert (await streams.answer())[1] == b"12"
        streams.writer.write(more)
        assert b" 200 " in (await streams.answer())[0]


@pytest.mark.parametrize(
    "pieces",
    [
        [WISH + b"Content-Length: 2\r\n\r\n12" + MORE],
        [WISH + b"Content-Length: 2\r\n\r\n12" + MORE[:20]],
        [WISH + b"Content-Length: 2\r\n\r\n1", b"2" + MORE],
        [WISH, b"Content-Length: 2\r\n\r\n12" + MORE],
        [WISH + b"Transfer-Encoding: chunked\r\n\r\n2\r\n12\r\n0\r\n\r\n" + MORE],
        [MORE + WISH + b"Content-Length: 2\r\n\r\n1", b"2" + MORE],
    ],
)
async def test_what_comes_at_once_with_a_wish_for_http2_is_not_waited_for(pieces):
    """The parser forgets it; so the connection ends, and who sent it knows."""
    async with client_of(opened()) as client, connected(client) as streams:
        await write_each(client, streams, pieces)
        answers = await streams.reader.read()
        *_, last = answers.split(b"HTTP/1.")
        assert b"\r\n\r\n12" in answers
        assert b" 400 " in last or b"\r\nConnection: close\r\n" in last


async def write_each(client, streams, pieces):
    """Each is read by itself, until the connection ends."""
    await until(lambda: connections_of(client))
    connection = connection_of(client)
    for piece in pieces:
        before = connection.read
        streams.writer.write(piece)
        await until(lambda before=before: connection.read > before or not connection.transport)


@pytest.mark.parametrize("usual", [False, True])
async def test_small_answers_that_are_not_read_hold_up_the_next(usual):
    """Who asks for many has no more of them in our memory than of large ones."""
    async with conversation(opened(), usual=usual) as (client, streams):
        streams.writer.transport.pause_reading()
        body, many = b"x" * 2**15, 500
        for _ in range(many):
            streams.post(b"/raw", body)
        await until(lambda: connection_of(client).writing_paused)
        connection, responses = connection_of(client), client.running.lanes["/raw"].responses
        held_up = lambda: connection._drain_waiter or connection._parked  # noqa: E731
        await until(lambda: held_up() or responses[200] == many)
        assert connection.transport.get_write_buffer_size() < 2**17
        streams.writer.transport.resume_reading()
        for _ in range(many):
            assert (await streams.answer())[1] == body


@pytest.mark.parametrize("usual", [False, True])
async def test_who_waits_for_the_request_before_teaches_nothing(usual):
    """How long our loop takes to turn to a request is not seen in one whose turn is later."""
    held = Held()
    async with conversation(held.service, usual=usual) as (client, streams):
        for number in range(4):
            streams.post(b"/echo", b"%d" % number)
        await until(lambda: client.stats("/echo").running)
        asyncio.get_running_loop().call_later(0.2, held.gate.set)
        for number in range(4):
            assert (await streams.answer())[1] == b"%d" % number
        assert client.running._marshal._passage.allowance(10) < 0.02
