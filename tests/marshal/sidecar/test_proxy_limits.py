"""What is passed on holds a server only while something moves: F10."""

import asyncio

import aiohttp
import pytest

from tests.marshal.sidecar.peers.raw import connect
from tests.marshal.sidecar.peers.scripted import OK, scripted
from tests.workers.conditions import until


async def echoes_the_length(exchange):
    await exchange.write(OK + b"Content-Length: 7\r\n\r\n%07d" % len(exchange.body))


async def sent(client, length, pieces, pause):
    """The first line of the answer to a body in pieces."""
    reader, writer = await connect(client.url)
    answer = asyncio.ensure_future(reader.readline())
    writer.write(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % length)
    for piece in pieces:
        writer.write(piece)
        await asyncio.wait([answer], timeout=pause)
        if answer.done():
            break
    line = await answer
    writer.close()
    return line


async def test_f10_a_body_that_drips_ends_in_time(before):
    """Though each piece comes in time: together they have to come at 500 bytes a second."""
    async with scripted(echoes_the_length) as server:
        client = await before(server=server.url, body_timeout=0.3)
        line = await sent(client, 10_000, [b"x"] * 9_000, 0.05)
        assert line == b"HTTP/1.1 408 Request Timeout\r\n"


async def test_f10_a_body_that_comes_slowly_but_steadily_is_passed_on(before):
    """It may take longer than the time for a piece."""
    async with scripted(echoes_the_length) as server:
        client = await before(server=server.url, body_timeout=1.5)
        line = await sent(client, 40_000, [b"x" * 10_000] * 4, 0.5)
        assert line == b"HTTP/1.1 200 OK\r\n"


async def test_f10_a_server_has_so_many_requests_at_a_time(before):
    """One more is refused at once, and let in again when another has ended."""

    async def script(exchange):
        if not exchange.number:
            await exchange.for_ever()
        await exchange.write(OK + b"Content-Length: 2\r\n\r\n{}")

    async with scripted(script) as server:
        client = await before(server=server.url, more={"max_passed": 1})
        url = f"{client.url}/x"
        first = asyncio.ensure_future(client.session.get(url))
        await until(lambda: server.exchanges)
        async with client.session.get(url) as response:
            assert (response.status, (await response.json())["error"]) == (503, "overloaded")
            assert int(response.headers["Retry-After"]) >= 1
        assert (await client.predict(1))[0] == 200  # a batch is none of them
        first.cancel()
        status = 503
        while status != 200:
            await asyncio.sleep(0.01)
            async with client.session.get(url) as response:
                status = response.status


async def interim_answers(exchange):
    while True:
        await exchange.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await asyncio.sleep(0.01)


async def silence(exchange):
    await exchange.for_ever()


@pytest.mark.parametrize("script", [interim_answers, silence])
async def test_f10_a_server_that_does_not_answer(before, script):
    """It is waited for as long as the route says, whatever it sends that is no answer."""
    async with scripted(script) as server:
        client = await before(server=server.url, more={"passed_timeout": 0.3})
        async with client.session.get(f"{client.url}/x") as response:
            assert (response.status, (await response.json())["error"]) == (504, "worker_timeout")


async def test_f10_an_answer_that_stands_still_is_broken_off(before):
    """Its client sees that it is not whole."""

    async def script(exchange):
        await exchange.write(OK + b"Content-Length: 9\r\n\r\nhalf")
        await exchange.for_ever()

    async with scripted(script) as server:
        client = await before(server=server.url, more={"passed_timeout": 0.3})
        async with client.session.get(f"{client.url}/x") as response:
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()


async def test_f10_a_stream_may_last_for_ever(before):
    """As long as something comes now and then, as of a language model."""

    async def script(exchange):
        await exchange.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(15):
            await exchange.write(b"1\r\nx\r\n")
            await asyncio.sleep(0.1)
        await exchange.write(b"0\r\n\r\n")

    async with scripted(script) as server:
        client = await before(server=server.url, more={"passed_timeout": 1.0})
        async with client.session.get(f"{client.url}/x") as response:
            assert await response.read() == b"x" * 15


async def test_f10_a_websocket_may_be_silent(model, before):
    """How long, is between the two."""
    client = await before(more={"passed_timeout": 0.2})
    async with client.session.ws_connect(f"{client.url}/socket") as socket:
        await asyncio.sleep(0.5)
        await socket.send_str("again")
        assert await socket.receive_str() == "againagain"
