"""What is passed on, is passed on as it came: messages byte for byte, and what is not HTTP."""

import asyncio
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from yarl import URL

from tests.marshal.sidecar.peers.raw import connect, exchange, parsed
from tests.stream_server import listening
from tests.workers.conditions import until


async def test_a_request_that_is_passed_on_after_all_is_answered_while_the_sidecar_ends(
    before, model, monkeypatch
):
    """Nothing else is under way, and that it can't be batched is known when its body is there."""
    monkeypatch.setattr("adaptive_batching.marshal.http.server.server._CALM", 0.01)
    monkeypatch.setattr("adaptive_batching.marshal.http.server.server._LAST_WORDS", 0.01)
    client = await before()
    model.gate.clear()
    body = b'{"instances": [1], "inputs": [1]}'
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: us\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )
    url = URL(client.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(head + body[:-1])
    await until(lambda: client.running._router.in_flight)
    ending = asyncio.create_task(client.running.stop(10.0))
    await until(lambda: client.running.draining)
    writer.write(body[-1:])
    await until(lambda: model.batches)
    await asyncio.wait([ending], timeout=0.3)  # it would have ended by now
    model.gate.set()
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    await ending
    writer.close()


@asynccontextmanager
async def scripted(*answers):
    """A server that gives these answers, one for each request, and remembers their bytes."""
    heard = []
    left = iter(answers)

    async def serve(reader, writer):
        try:
            async for head in _heads(reader):
                heard.append(head)
                writer.write(next(left))
                await writer.drain()
        finally:
            writer.close()

    async with listening(serve) as url:
        yield URL(url), heard


async def _heads(reader):
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if b"chunked" in head:
                head += await reader.readuntil(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        yield head


CLOSE = b"Connection: close\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_headers_keep_their_order_and_nothing_is_added(before):
    """Two of a name stay two, a type that is absent stays absent; both ways."""
    answer = (
        b"HTTP/1.1 299 As You Like\r\nB: 1\r\na: 2\r\nB: 3\r\nDate: today\r\n"
        b"Content-Length: 2\r\n\r\nok"
    )
    async with scripted(answer) as (url, heard):
        client = await before(server=url)
        got = await exchange(
            client.url, b"POST /x HTTP/1.1\r\nHost: h\r\nZ: 1\r\ny: 2\r\nZ: 3\r\n" + CLOSE
        )
    assert got == (
        b"HTTP/1.1 299 As You Like\r\nB: 1\r\na: 2\r\nB: 3\r\nDate: today\r\n"
        b"Content-Length: 2\r\nConnection: close\r\n\r\nok"
    )
    assert heard[0].startswith(b"POST /x HTTP/1.1\r\nHost: h\r\nZ: 1\r\ny: 2\r\nZ: 3\r\n")
    assert b"Content-Type" not in heard[0]
    assert b"User-Agent" not in heard[0]
    assert b"Accept" not in heard[0]  # a coding that the client never offered would come back


async def test_headers_whose_names_differ_in_case(before):
    """All of them arrive, in their order."""
    async with scripted(OK) as (url, heard):
        client = await before(server=url)
        await exchange(client.url, b"GET /x HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\n" + CLOSE)
    assert b"\r\nX-A: 1\r\nX-A: 2\r\n" in heard[0]


async def test_answers_without_a_body(before):
    """A HEAD has its length and no body, a 204 neither; the connection goes on."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
    empty = b"HTTP/1.1 204 No Content\r\n\r\n"
    async with scripted(head, empty, OK) as (url, _):
        client = await before(server=url)
        lines = (b"HEAD /a", b"OPTIONS /b", b"GET /c")
        requests = [line + b" HTTP/1.1\r\nHost: h\r\n" for line in lines]
        stream = await exchange(client.url, (b"\r\n".join(requests)) + CLOSE)
    first, _, rest = stream.partition(b"\r\n\r\n")
    assert b"Content-Length: 5000" in first
    assert [(each.status, each.body) for each in parsed(rest)] == [(204, b""), (200, b"ok")]


async def test_trailers_end_a_message_and_go_no_further(before):
    """As RFC 9110, 6.5.1 allows; the message is whole and the connection usable, both ways."""
    answer = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n"
        b"2\r\nok\r\n0\r\nSum: 1\r\n\r\n"
    )
    async with scripted(answer, OK) as (url, heard):
        client = await before(server=url)
        sent = (
            b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n"
            b"3\r\nabc\r\n0\r\nT: 1\r\n\r\n"
        )
        reader, writer = await connect(client.url)
        writer.write(sent)
        assert (await reader.readuntil(b"0\r\n\r\n")).endswith(b"2\r\nok\r\n0\r\n\r\n")
        writer.write(b"GET /y HTTP/1.1\r\nHost: h\r\n" + CLOSE)
        [answer] = parsed(await reader.read())
        writer.close()
    assert answer.body == b"ok"
    assert heard[0].endswith(b"3\r\nabc\r\n0\r\n\r\n")


ENDS = (
    b"Authorization: me\r\n\r\n",
    b"Cookie: a=b\r\nX-Tenant: other\r\n\r\n",
    b"Host: evil\r\n\r\n",
)
IN_CHUNKS = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n"


@pytest.mark.parametrize("trailers", ENDS)
async def test_t1_trailers_are_no_headers_of_the_next_request(model, before, trailers):
    """A proxy before us may pass them on, and share its connection among clients: none of them can
    speak in the name of the next.
    """
    client = await before()
    reader, writer = await connect(client.url)
    writer.write(IN_CHUNKS + trailers)
    assert await reader.readuntil(b"POST /x 2")
    writer.write(b"GET /y HTTP/1.1\r\nHost: h\r\nX-Own: 1\r\n" + CLOSE)
    [answer] = parsed(await reader.read())
    assert (answer.status, answer.body) == (200, b"GET /y 0")
    for headers in model.seen:
        assert not {"Authorization", "Cookie", "X-Tenant"} & set(headers)
        assert headers["Host"] == "h"
    assert model.seen[1]["X-Own"] == "1"
    writer.close()


@pytest.mark.parametrize("trailers", ENDS)
async def test_t1_nor_of_one_that_follows_at_once(model, before, trailers):
    """However they are read."""
    client = await before()
    following = b"GET /y HTTP/1.1\r\nHost: h\r\nX-Own: 1\r\n" + CLOSE
    for ends in (trailers, b"\r\n"):
        stream = await exchange(client.url, IN_CHUNKS + ends + following)
        assert [each.body for each in parsed(stream)] == [b"POST /x 2", b"GET /y 0"]
    for headers in model.seen:
        assert not {"Authorization", "Cookie", "X-Tenant"} & set(headers)
        assert headers["Host"] == "h"


@pytest.mark.parametrize("trailer", [b"Content-Length: 3", b"Transfer-Encoding: chunked"])
async def test_t1_trailers_about_a_length_are_refused(model, before, trailer):
    """Somebody might believe them: the request is malformed, and what follows is not looked at."""
    client = await before()
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent = head + b"2\r\nab\r\n0\r\n" + trailer + b"\r\n\r\n"
    stream = await exchange(client.url, sent + b"GET /y HTTP/1.1\r\nHost: h\r\n" + CLOSE)
    assert [each.status for each in parsed(stream)] == [400]
    assert not model.seen


async def test_many_interim_answers_harm_nobody(before):
    """Hints with forged headers are not those of the answer."""
    hints = b"HTTP/1.1 103 Early Hints\r\nSet-Cookie: a=b\r\nContent-Length: 9\r\n\r\n" * 20
    async with scripted(hints + OK, OK) as (url, _):
        client = await before(server=url)
        requests = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n", b"GET /y HTTP/1.1\r\nHost: h\r\n" + CLOSE
        stream = await exchange(client.url, *requests)
    assert [(each.status, each.body) for each in parsed(stream)] == [(200, b"ok")] * 2
    assert b"a=b" not in stream


async def test_interim_answers_are_no_answers(before):
    """What a server says in between is not taken for what was asked for."""
    async with scripted(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK) as (url, _):
        client = await before(server=url)
        stream = await exchange(client.url, b"GET /x HTTP/1.1\r\nHost: h\r\n" + CLOSE)
    assert [(each.status, each.body) for each in parsed(stream)] == [(200, b"ok")]


async def test_expect_continue(model, before):
    """Who asks before it sends is told to go on, and the server is not asked again."""
    client = await before()
    reader, writer = await connect(client.url)
    writer.write(b"PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n")
    writer.write(CLOSE)
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"abc")
    [answer] = parsed(await reader.read())
    assert answer.body == b"PUT /x 3"
    assert "Expect" not in model.seen[-1]
    writer.close()


@pytest.mark.parametrize("line", [b"PUT /x", b"POST /v1/models/m:predict"])
async def test_http_1_0_is_not_told_to_go_on(model, before, line):
    """It would take that for the answer."""
    client = await before()
    reader, writer = await connect(client.url)
    headers = b"Host: h\r\nContent-Length: 19\r\nExpect: 100-continue\r\n\r\n"
    writer.write(line + b" HTTP/1.0\r\n" + headers)
    await until(lambda: client.running._router.in_flight)
    writer.write(b'{"instances": [21]}')
    assert [each.status for each in parsed(await reader.read())] == [200]
    writer.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nConnection: close\r\n\r\nok",
    ],
)
async def test_f10_an_answer_that_can_not_be_passed_on(before, answer):
    """It may have run, so it is not sent again; and nobody gets what is in a coding unawares."""
    async with scripted(answer, OK) as (url, heard):
        client = await before(server=url)
        async with client.session.get(f"{client.url}/x") as response:
            assert (response.status, (await response.json())["error"]) == (502, "upstream_broken")
    assert len(heard) == 1


async def test_http_1_0_gets_a_stream_as_long_as_the_connection(model, before):
    """It knows no chunks."""
    client = await before()
    stream = await exchange(client.url, b"GET /stream HTTP/1.0\r\nHost: h\r\n\r\n")
    assert stream.endswith(b"\r\n\r\ndata: 0\n\ndata: 1\n\ndata: 2\n\n")


async def test_a_websocket(model, before):
    """Texts, a megabyte, the protocol agreed on and the code it closes with."""
    client = await before()
    async with client.session.ws_connect(
        f"{client.url}/socket", protocols=["echo"], max_msg_size=0
    ) as socket:
        assert socket.protocol == "echo"
        for message in ("a", "bc"):
            await socket.send_str(message)
            assert await socket.receive_str() == 2 * message
        await socket.send_bytes(bytes(2**20))
        assert await socket.receive_bytes() == bytes(2**21)
        await socket.send_str("leave")
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 4000


async def test_a_websocket_is_bytes_both_ways_once_the_server_agrees(before):
    """The client's first bytes come with its request, the server's with its 101."""
    said = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Fine\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n-.-")
        assert await reader.readexactly(6) == b"...---"
        said.set()
        writer.write(b"\x00\xff")
        writer.close()

    async with listening(serve) as url:
        client = await before(server=URL(url))
        head = b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        head, _, rest = (await exchange(client.url, head + b"...", b"---")).partition(b"\r\n\r\n")
    assert said.is_set()
    assert head.startswith(b"HTTP/1.1 101 Fine\r\n")
    assert b"Upgrade: websocket" in head
    assert rest == b"-.-\x00\xff"


async def test_an_upgrade_that_the_server_declines(before):
    """What follows is a request like any other, and not for the server's eyes as bytes."""
    async with scripted(OK, OK) as (url, heard):
        client = await before(server=url)
        upgrade = b"GET /a HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        after = b"GET /b HTTP/1.1\r\nHost: h\r\n" + CLOSE
        stream = await exchange(client.url, upgrade + after)
    assert [each.body for each in parsed(stream)] == [b"ok", b"ok"]
    assert [head.split()[1] for head in heard] == [b"/a", b"/b"]


async def test_a_client_that_leaves_in_a_stream_is_no_error(before, caplog):
    """Nor the server's, though its answer does not arrive."""

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"a" * 100)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    async with listening(serve) as url:
        client = await before(server=URL(url))
        for _ in range(10):
            reader, writer = await connect(client.url)
            writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            await reader.readexactly(1000)
            writer.write_eof()
            while await reader.read(2**16):
                pass
            writer.close()
    assert not [each for each in caplog.records if each.name == "aiohttp.server"]


async def test_an_upgrade_that_can_not_be_passed_on(before):
    """What follows its refusal is a request, and no byte of a tunnel that nothing reads."""
    fine = b"HTTP/1.1 101 Fine\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nA: \x01\r\n\r\n"
    async with scripted(fine, OK) as (url, _):
        client = await before(server=url)
        upgrade = b"GET /a HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        after = b"GET /b HTTP/1.1\r\nHost: h\r\n" + CLOSE
        stream = await exchange(client.url, upgrade + after)
    assert [each.status for each in parsed(stream)] == [502, 200]


@pytest.mark.parametrize("answer", [OK, b"HTTP/1.1 101 Fine\r\nUpgrade: h2c\r\n\r\n"])
async def test_http_2_is_not_smuggled_through_an_upgrade(before, answer):
    """The server never hears of the wish: requests in a tunnel would not be seen."""
    async with scripted(answer) as (url, heard):
        client = await before(server=url)
        wish = b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nConnection: Upgrade, HTTP2-Settings"
        start = b"GET / HTTP/1.1\r\nHost: h\r\n"
        stream = await exchange(client.url, start + wish + b", close\r\n\r\n")
    assert [each.status for each in parsed(stream)] == [200 if answer is OK else 502]
    assert b"Upgrade" not in heard[0]
    assert b"HTTP2-Settings" not in heard[0]


@pytest.mark.parametrize(
    "target", [b"/x?", b"/x??", b"/?", b"//x", b"/x/../y", b"/x%2fy%2F%", b"/x?y=%20&&=", b"/x|y"]
)
async def test_a_target_is_passed_on_as_it_came(before, target):
    """A signature may be about each of its bytes."""
    async with scripted(OK) as (url, heard):
        client = await before(server=url)
        await exchange(client.url, b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n" + CLOSE)
    assert [head.split()[1] for head in heard] == [target]


@pytest.mark.parametrize("query", [b"", b"?", b"?x=%20&&=", b"?x|y"])
async def test_a_target_of_batches_is_told_as_it_came(before, query):
    """It is the batch's, as it is each member's."""
    target = b"/v1/models/m:predict" + query
    head = b"POST " + target + b" HTTP/1.1\r\nHost: h\r\nContent-Length: 17\r\n"
    async with scripted(OK) as (url, heard):
        client = await before(server=url)
        await exchange(client.url, head + CLOSE + b'{"instances":[1]}')
    assert [head.split()[1] for head in heard] == [target]


@pytest.mark.parametrize(
    ("line", "passed"),
    [
        (b"GET http://evil.test/x?y=1", b"GET /x?y=1 HTTP/1.1"),
        (b"GET http://evil.test", b"GET / HTTP/1.1"),
        (b"GET HTTPS://a@evil.test:1?x", b"GET /?x HTTP/1.1"),
        (b"GET http://evil.test/x?", b"GET /x? HTTP/1.1"),
        (b"GET //evil.test/x", b"GET //evil.test/x HTTP/1.1"),
        (b"OPTIONS *", None),
        (b"CONNECT evil.test:80", None),
        (b"CONNECT /x", None),
    ],
)
async def test_t9_no_request_chooses_whom_it_goes_to(before, line, passed):
    """Only its path counts; one without a path is refused."""
    async with scripted(OK) as (url, heard):
        client = await before(server=url)
        stream = await exchange(client.url, line + b" HTTP/1.1\r\nHost: h\r\n" + CLOSE)
    [answer] = parsed(stream)
    assert answer.status == (400 if passed is None else 200)
    assert [head.split(b"\r\n")[0] for head in heard] == ([] if passed is None else [passed])


async def test_t2_a_body_that_stops_is_given_up(model, before):
    """However small the piece that is missing; the server is not blamed."""
    client = await before(body_timeout=0.2)
    head = b"PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc"
    [answer] = parsed(await exchange(client.url, head))
    assert (answer.status, answer.headers["Connection"]) == (408, "close")


@pytest.mark.parametrize("line", [b"PUT /x", b"POST /v1/models/m:predict"])
async def test_a_body_that_can_not_be_parsed_is_not_waited_for(before, line):
    """Neither of what is passed on nor of what would be batched; whoever asked hears it at once."""
    client = await before()
    reader, writer = await connect(client.url)
    headers = b"Host: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    writer.write(line + b" HTTP/1.1\r\n" + headers)
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"1\r\n1\r\nno length\r\n")
    [answer] = parsed(await reader.read())
    assert (answer.status, answer.headers["Connection"]) == (400, "close")
    writer.close()


@pytest.mark.parametrize("line", [b"PUT /x", b"POST /v1/models/m:predict"])
@pytest.mark.parametrize("name", [b"Authorization", b"Content-Type", b"X-User"])
async def test_t1_a_header_that_is_no_text_is_not_changed_on_its_way(model, before, line, name):
    """What it says here, and to the server, is the same, or it is refused."""
    client = await before()
    body = b'{"instances": [1]}'
    head = line + b" HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n" % len(body)
    told = {}
    for value in (b"ad\xffmin", "ad\u00fcmin".encode()):
        stream = await exchange(client.url, head + name + b": " + value + b"\r\n" + CLOSE + body)
        told[value] = parsed(stream)[0].status
    assert told == {b"ad\xffmin": 400, "ad\u00fcmin".encode(): 200}
    assert [headers.get(name.decode()) for headers in model.seen] == ["ad\u00fcmin"]


async def test_an_answer_keeps_headers_that_are_no_text(before):
    """Names of files come like that."""
    name = b'Content-Disposition: attachment; filename="caf\xe9"\r\n'
    async with scripted(OK.replace(b"Content-Length", name + b"Content-Length")) as (url, _):
        client = await before(server=url)
        stream = await exchange(client.url, b"GET /x HTTP/1.1\r\nHost: h\r\n" + CLOSE)
    assert name in stream


async def test_a_body_of_which_some_is_gone_is_not_sent_again(before):
    """The server hung up when it had more than was kept: the rest alone would be another body."""
    requests, began, hung_up = 0, asyncio.Event(), asyncio.Event()

    async def serve(reader, writer):
        nonlocal requests
        with suppress(asyncio.IncompleteReadError):  # at the start it is only looked for
            await reader.readuntil(b"1" * 1500)
            requests += 1
            began.set()
            if requests == 1:
                await reader.readuntil(b"second")
                hung_up.set()
            else:
                writer.write(OK)
        writer.close()

    async with listening(serve) as url:
        client = await before(server=URL(url), max_body=1000)
        reader, writer = await connect(client.url)
        head = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
        writer.write(head + CLOSE + b"5dc\r\n" + b"1" * 1500 + b"\r\n")
        await began.wait()
        writer.write(b"6\r\nsecond\r\n")
        await hung_up.wait()
        writer.write(b"5\r\nthird\r\n0\r\n\r\n")
        [answer] = parsed(await reader.read())
        writer.close()
    assert (answer.status, requests) == (502, 1)


UPGRADE = b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
AGREED = b"HTTP/1.1 101 Fine\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
MUCH = bytes(2**22)


@asynccontextmanager
async def tunnelled(before, path, serve, **more):
    """A client of a WebSocket and what its server does; a Unix socket holds little by itself."""

    async def agree(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(AGREED)
        served.set_result(await serve(reader, writer))
        writer.close()

    served = asyncio.get_running_loop().create_future()
    async with listening(agree, path=path, limit=2**10):
        client = await before(server=f"unix:{path}", more=more)
        reader, writer = await connect(client.url)
        writer.write(UPGRADE)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        yield reader, writer, served
        writer.transport.abort()


async def test_a_slow_server_gets_all_that_a_client_sent_before_it_closed(before, tmp_path):
    """Also what had not left the sidecar when the client was gone."""

    async def serve(reader, writer):
        size = 0
        while piece := await reader.read(2**10):
            size += len(piece)
            await asyncio.sleep(0)
        return size

    async with tunnelled(before, str(tmp_path / "s"), serve) as (_, writer, served):
        writer.write(MUCH)
        await writer.drain()
        writer.close()
        assert await served == len(MUCH)


async def test_a_client_that_closes_by_halves_gets_its_answer(before, tmp_path):
    """Its end is told to the server behind its last byte, and not taken for the end of both."""

    async def serve(reader, writer):
        size = len(await reader.read())
        writer.write(MUCH)
        return size

    async with tunnelled(before, str(tmp_path / "s"), serve) as (reader, writer, served):
        writer.write(MUCH)
        writer.write_eof()
        assert await reader.read() == MUCH
        assert await served == len(MUCH)


async def test_a_client_gets_all_that_a_server_sent_before_it_closed(before, tmp_path):
    """Though the client was still sending, and what it sent has no reader any more."""

    async def serve(reader, writer):
        writer.write(MUCH)
        return 0

    async with tunnelled(before, str(tmp_path / "s"), serve) as (reader, writer, served):
        writer.write(MUCH)
        assert await served == 0
        assert await reader.read() == MUCH


async def test_a_tunnel_ends_if_nothing_moves_after_its_client_has_hung_up(before, tmp_path):
    """A server that takes no notice of it does not keep the tunnel for ever."""

    async def serve(reader, writer):
        assert await reader.read() == b"..."
        await hold.wait()

    hold = asyncio.Event()
    path = str(tmp_path / "s")
    async with tunnelled(before, path, serve, passed_timeout=0.1) as (reader, writer, served):
        writer.write(b"...")
        writer.write_eof()
        assert await reader.read() == b""
        hold.set()
        await served
