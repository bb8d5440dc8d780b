"""Clients that send their next request before they have the answer to the last one."""

import asyncio

import pytest

from tests.marshal.client import client_of, until
from tests.marshal.test_fast_path import Held, connected, connection_of, use_the_usual_path


def in_chunks(path, body, trailers=b""):
    lines = [b"POST %b HTTP/1.1" % path, b"Host: us", b"Transfer-Encoding: chunked", b""]
    return b"\r\n".join([*lines, b"%x" % len(body), body, b"0", trailers + b"\r\n"])


def opened():
    """A service whose gate is open."""
    held = Held()
    held.gate.set()
    return held.service


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


async def test_what_waits_behind_one_in_chunks_is_answered():
    """No more than 32 are parsed at a time: the last of them may be in chunks."""
    async with client_of(opened()) as client, connected(client) as streams:
        for number in range(100):
            streams.writer.write(in_chunks(b"/echo", b"%d" % number))
        for number in range(100):
            assert (await streams.answer())[1] == b"%d" % number


@pytest.mark.parametrize("usual", [False, True])
async def test_small_answers_that_are_not_read_hold_up_the_next(usual):
    """Who asks for many has no more of them in our memory than of large ones."""
    async with client_of(opened()) as client:
        if usual:
            use_the_usual_path(client)
        async with connected(client) as streams:
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
    async with client_of(held.service) as client:
        if usual:
            use_the_usual_path(client)
        async with connected(client) as streams:
            for number in range(4):
                streams.post(b"/echo", b"%d" % number)
            await until(lambda: client.stats("/echo").running)
            asyncio.get_running_loop().call_later(0.2, held.gate.set)
            for number in range(4):
                assert (await streams.answer())[1] == b"%d" % number
        assert client.running._face._marshal._passage.allowance(10) < 0.02
