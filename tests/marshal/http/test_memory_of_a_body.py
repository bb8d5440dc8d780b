"""What has come of a body is kept once, however long the rest of it takes."""

import asyncio
from sys import getrefcount

from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpRequestParser
from aiohttp.test_utils import make_mocked_request

from adaptive_batching.marshal.http.body import arriving_body, arriving_pieces
from adaptive_batching.marshal.http.parser import Parser
from tests.marshal.client import until

_HEAD = b"POST / HTTP/1.1\r\nHost: us\r\nContent-Length: 1000000\r\n\r\n"
_PIECE = 2**16  # bytes


async def test_the_parser_keeps_no_bytes_that_it_has_passed_on():
    """With a connection each, that was as much again as all bodies."""
    loop = asyncio.get_running_loop()
    parser = Parser(lambda: HttpRequestParser(BaseProtocol(loop), loop, 2**20))
    for piece in (_HEAD + bytes(_PIECE), bytes(_PIECE)):
        before = getrefcount(piece)
        parser.feed_data(piece)
        assert getrefcount(piece) == before


async def test_who_reads_a_body_keeps_no_piece_of_it_while_the_next_comes():
    """What was written down is not held on to."""
    loop = asyncio.get_running_loop()
    connection = BaseProtocol(loop)
    connection.connection_made(asyncio.Transport())
    stream = StreamReader(connection, 2**20, loop=loop)
    request = make_mocked_request("POST", "/", payload=stream)
    reading = asyncio.ensure_future(arriving_body(request, 2**20, 60.0))
    piece = bytes(_PIECE)
    before = getrefcount(piece)
    stream.feed_data(piece)
    await until(lambda: stream._waiter)
    assert getrefcount(piece) == before
    stream.feed_data(piece)
    stream.feed_eof()
    assert await reading == piece * 2


async def test_large_pieces_of_a_body_are_not_copied_and_small_ones_are_put_together():
    """A copy would cost what the way here did; pieces of a byte take 80 times their room."""
    loop = asyncio.get_running_loop()
    connection = BaseProtocol(loop)
    connection.connection_made(asyncio.Transport())
    stream = StreamReader(connection, 2**20, loop=loop)
    request = make_mocked_request("POST", "/", {"Content-Length": "140000"}, payload=stream)
    large = bytes(_PIECE)
    for piece in [*[b"1"] * 10_000, large, *[b"2"] * 10_000]:
        stream.feed_data(piece)
    stream.feed_eof()
    first, second, third = await arriving_pieces(request, 2**20, 60.0)
    assert (first, third) == (b"1" * 10_000, b"2" * 10_000)
    assert second is large
