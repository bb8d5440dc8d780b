"""What belongs to which request, in whatever pieces it comes."""

import asyncio

import pytest

from adaptive_batching.marshal.http.framing import Framing, Lost
from tests.marshal.client import client_of
from tests.marshal.http.test_fast_path import connected, connection_of
from tests.marshal.http.test_pipelining import conversation, in_chunks, opened, write_each

GET = b"GET /healthz HTTP/1.1\r\nHost: us\r\n\r\n"
LATE = b"POST /raw HTTP/1.1\r\nHost: us\r\nContent-Length: 1\r\n\r\n"
CHUNKS = b"POST /raw HTTP/1.1\r\nHost: us\r\nTransfer-Encoding: chunked\r\n\r\n"
EMPTY = b"0\r\n\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: %b\r\n"
WISH = UPGRADE + b"Content-Length: 2\r\n\r\n"
MANY_CHUNKS = CHUNKS.replace(b"/raw", b"/nowhere") + b"1\r\nx\r\n" * 4097 + EMPTY


def to(path, rest):
    return b"POST %b HTTP/1.1\r\nHost: us\r\n%b" % (path, rest)


ANSWERED = {
    "headers that say nothing, after one in chunks": (
        [CHUNKS + EMPTY + GET[:-2] + (b"A:" + b" " * 24 + b"\r\n") * 12 + b"\r\n"],
        [200] * 2,
    ),
    "an empty body that comes late, and many after it": ([CHUNKS, EMPTY + GET * 40], [200] * 41),
    "each body comes late, with the next head": (
        [LATE] + [b"x" + LATE] * 31 + [b"x" + GET * 3],
        [200] * 35,
    ),
    "each empty body comes late, with the next head": (
        [CHUNKS] + [EMPTY + CHUNKS] * 33 + [EMPTY + GET * 3],
        [200] * 37,
    ),
    "two that differ in their first header": (
        [CHUNKS + EMPTY + CHUNKS.replace(b"Host", b"X: 1\r\nHost") + EMPTY],
        [200] * 2,
    ),
    "more chunks than are read at once, to nobody": (
        [
            MANY_CHUNKS + to(b"/raw", b"Content-Length: 999\r\n\r\n"),
            bytes(999) + CHUNKS + EMPTY,
            GET,
        ],
        [404, 200, 200, 200],
    ),
    "chunked in other letters, with spaces around": (
        [CHUNKS.replace(b" chunked", b"\t CHUNKed  ") + EMPTY + GET],
        [200] * 2,
    ),
    "line ends before a request": (
        [CHUNKS + EMPTY + b"\r\n", b"\r\n\r\n" * 9, b"\r\n" + GET],
        [200] * 2,
    ),
}
ENDED = {
    "a length of too many digits": (
        [to(b"/raw", b"Content-Length: %b1\r\n\r\nx" % (b"0" * 5000))],
        [400],
    ),
    "the largest length of all": (
        [to(b"/healthz", b"Content-Length: %d\r\n\r\n" % (2**64 - 1)) + GET],
        [400],
    ),
    "a coding that has no end, with a wish": (
        [to(b"/raw", b"Transfer-Encoding: gzip\r\n" + UPGRADE % b"websocket" + b"\r\n" + GET)],
        [400],
    ),
    "a coding before chunked, after another one": (
        [CHUNKS + EMPTY + GET + CHUNKS.replace(b"chunked", b"gzip, chunked") + EMPTY + GET],
        [200, 200, 400],
    ),
    "an endless line before a chunk": ([CHUNKS + b"1;" + b"x" * 2**15], [400]),
    "a chunk without a size": ([CHUNKS + b"1\r\nx\r\n", b"none\r\n"], [400]),
    "a chunk of less than nothing, after one that nobody has read yet": (
        [CHUNKS + b"%x\r\n%b\r\n-5\r\n" % (2**17, bytes(2**17))],
        [400],
    ),
    "a chunk without a size, to nobody": (
        [CHUNKS.replace(b"/raw", b"/nowhere"), b"none\r\n"],
        [404],
    ),
    "what follows trailers": ([GET * 3 + CHUNKS + b"0\r\nA: b\r\n\r\n" + GET], [200] * 4 + [400]),
    "a WebSocket whose body comes after the answer": (
        [to(b"/nowhere", WISH % b"websocket"), b"12", GET],
        [404],
    ),
    "nearly a WebSocket": ([to(b"/raw", WISH % b"websoc\xe2\x84\xaaet" + b"12") + GET], [200]),
    "a tunnel with a body": (
        [b"CONNECT us:80 HTTP/1.1\r\nHost: us:80\r\nContent-Length: %d\r\n\r\n" % len(GET) + GET],
        [404],
    ),
}


async def statuses_of(streams, count):
    return [int((await streams.answer())[0].split()[1]) for _ in range(count)]


@pytest.mark.parametrize("usual", [False, True])
@pytest.mark.parametrize(("pieces", "statuses"), ANSWERED.values(), ids=ANSWERED)
async def test_each_request_is_answered(pieces, statuses, usual):
    """However they are cut, and whatever came before; and so is the next one."""
    async with conversation(opened(), usual=usual) as (client, streams):
        await write_each(client, streams, pieces)
        assert await statuses_of(streams, len(statuses)) == statuses
        streams.writer.write(GET)
        assert await statuses_of(streams, 1) == [200]


@pytest.mark.parametrize("usual", [False, True])
@pytest.mark.parametrize(("pieces", "statuses"), ENDED.values(), ids=ENDED)
async def test_what_can_not_be_told_apart_ends_its_connection(pieces, statuses, usual, caplog):
    """So the client knows what was not answered, and nobody reads of exceptions."""
    async with conversation(opened(), usual=usual) as (client, streams):
        await write_each(client, streams, pieces)
        assert await statuses_of(streams, len(statuses)) == statuses
        async with asyncio.timeout(10):
            assert await streams.reader.read() == b""
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_no_more_is_kept_than_the_beginning_of_a_head():
    """Of requests in chunks whose ends always come with the next one's beginning."""
    async with client_of(opened()) as client, connected(client) as streams:
        piece = in_chunks(b"/raw", b"1" * 5000)
        streams.writer.write(piece[:1])
        for _ in range(50):
            streams.writer.write(piece[1:] + piece[:1])
            assert (await streams.answer())[1] == b"1" * 5000
        assert len(connection_of(client)._parser._framing._ahead) == 1


def test_a_head_that_does_not_end_is_given_up():
    """The parser does not count the spaces before a value."""
    framing = Framing()
    framing.follow(b"GET / HTTP/1.1\r\nA:" + b" " * 2**20, [], upgraded=False)
    with pytest.raises(Lost, match="a head is too long"):
        framing.follow(b" " * 2**20, [], upgraded=False)
