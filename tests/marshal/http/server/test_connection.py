"""A connection frames its requests and answers them in their order, whatever they bring."""

import asyncio

import pytest

from adaptive_batching.instrumentation.tracing import Tracing
from adaptive_batching.marshal.http import limits
from adaptive_batching.marshal.http.response import Response, head_of
from adaptive_batching.marshal.service.service import Service
from tests.marshal.client import client_of, until
from tests.marshal.http.server.held import Held, connected

GET = b"GET /healthz HTTP/1.1\r\nHost: us\r\n\r\n"


def opened():
    """A service whose gate is open."""
    held = Held()
    held.gate.set()
    return held.service


def tasks_of_requests():
    """Those that aiohttp made."""
    return [each for each in asyncio.all_tasks() if "_handle_request" in repr(each.get_coro())]


def in_chunks(path, body, trailers=b""):
    lines = [b"POST %b HTTP/1.1" % path, b"Host: us", b"Transfer-Encoding: chunked", b""]
    return b"\r\n".join([*lines, b"%x" % len(body), body, b"0", trailers + b"\r\n"])


async def test_no_task_is_made_for_a_request_that_waits_for_its_batch_alone():
    """Be it whole when it is read, or in pieces, or in chunks."""
    held = Held()
    pieces = [b"POST /echo HTTP/1.1\r\nHost: us\r\nContent-Length: 2\r\n\r\n1", b"1"]
    async with (
        client_of(held.service) as client,
        connected(client) as one,
        connected(client) as two,
        connected(client) as three,
    ):
        one.post(b"/echo", b"1")
        two.writer.write(pieces[0])
        three.writer.write(in_chunks(b"/echo", b"111"))
        await until(lambda: client.running.metrics.held_bytes() == 1 + 2 + 3)
        two.writer.write(pieces[1])
        await until(lambda: client.stats("/echo").queued)
        assert not tasks_of_requests()
        held.gate.set()
        answers = [(await each.answer())[1] for each in (one, two, three)]
        assert answers == [b"1", b"11", b"111"]


async def test_a_page_is_passed_on():
    """To aiohttp, and the next request is not."""
    async with client_of(opened()) as client, connected(client) as streams:
        for _ in range(3):
            streams.writer.write(GET)
            assert (await streams.answer())[1] == b'{"status": "ok"}'
            streams.post(b"/echo", b"1")
            assert (await streams.answer())[1] == b"1"


async def test_what_comes_meanwhile_waits_its_turn():
    """Answers have the order of their requests, be they passed on or not."""
    held = Held()
    async with client_of(held.service) as client, connected(client) as streams:
        streams.post(b"/echo", b"1")
        await until(lambda: client.stats("/echo").running)
        streams.post(b"/echo", b"2")
        streams.writer.write(GET)
        streams.post(b"/nowhere", b"3")
        streams.post(b"/echo", b"4")
        held.gate.set()
        answers = [(await streams.answer())[1] for _ in range(5)]
        assert answers[:3] == [b"1", b"2", b'{"status": "ok"}']
        assert b"not_found" in answers[3]
        assert answers[4] == b"4"


async def test_no_answer_to_head_has_a_body():
    """Its client would take it for the next answer."""
    async with client_of(opened()) as client, connected(client) as streams:
        streams.writer.write(b"HEAD /echo HTTP/1.1\r\nHost: us\r\nContent-Length: 1\r\n\r\n1")
        head = await streams.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 405 ")
        streams.post(b"/echo", b"2")
        head, body = await streams.answer()
        assert (head[:13], body) == (b"HTTP/1.1 200 ", b"2")


# ------------------------------------------------------------------- where one ends, another begins


async def test_t1_a_request_may_begin_where_one_in_chunks_ends():
    """Wherever what is read at a time ends: no part of a header becomes a request."""
    async with client_of(opened()) as client, connected(client) as streams:
        streams.writer.write(in_chunks(b"/echo", b"1") + b"POST /echo HTTP/1.1\r\nX: ")
        assert (await streams.answer())[1] == b"1"
        streams.post(b"/raw", b"2")
        head, body = await streams.answer()
        assert (body, b"\r\nContent-Type: application/json\r\n" in head) == (b"2", True)


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
@pytest.mark.parametrize("path", [b"/raw", b"/healthz"])
async def test_t1_no_trailer_is_a_header_of_the_next_request(path, body, trailers):
    """Be it answered in place or passed on; and no body is taken for a head."""
    following = b"\r\n".join([*FOLLOWING, b"", b"2"])
    async with client_of(opened()) as client, connected(client) as streams:
        streams.writer.write(in_chunks(path, body, trailers) + following)
        _, first = await streams.answer()
        assert first == body or b"method_not_allowed" in first
        head, answer = await streams.answer()
        assert (b"X-Request-Id: mine" in head, answer) == (True, b"2")


async def test_what_waits_behind_one_in_chunks_is_answered():
    """However many there are."""
    async with client_of(opened()) as client, connected(client) as streams:
        for number in range(1000):
            streams.writer.write(in_chunks(b"/echo", b"%d" % number))
        for number in range(1000):
            assert (await streams.answer())[1] == b"%d" % number


WISH = b"POST /raw HTTP/1.1\r\nHost: us\r\nConnection: Upgrade\r\nUpgrade: %b\r\n"


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
@pytest.mark.parametrize(
    "pieces",
    [
        [b"Content-Length: 2\r\n\r\n12", GET],
        [b"Content-Length: 2\r\n\r\n1", b"2", GET],
        [b"Content-Length: 2\r\n\r\n", b"12" + GET],
        [b"Content-Length: 2\r\n\r\n12" + GET],
        [b"Content-Length: 2\r\n\r\n12" + GET[:20], GET[20:]],
        [b"Transfer-Encoding: chunked\r\n\r\n2\r\n12\r\n0\r\n\r\n" + GET],
    ],
)
async def test_an_upgrade_that_is_not_granted_is_as_if_it_had_not_been_asked_for(protocol, pieces):
    """Some clients ask for HTTP/2 with each request; what follows stands where it stood."""
    async with client_of(opened()) as client, connected(client) as streams:
        streams.writer.write(WISH % protocol)
        for piece in pieces:
            streams.writer.write(piece)
            await asyncio.sleep(0)
        assert (await streams.answer())[1] == b"12"
        assert (await streams.answer())[1] == b'{"status": "ok"}'


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        (b"\0\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/2.0\r\nHost: us\r\n\r\n", b"505"),
    ],
)
async def test_what_is_wrong_behind_an_upgrade_is_said_as_elsewhere(rest, status):
    """It is no error of ours."""
    async with client_of(opened()) as client, connected(client) as streams:
        streams.writer.write(WISH % b"h2c" + b"Content-Length: 1\r\n\r\n1" + rest)
        assert (await streams.answer())[1] == b"1"
        assert (await streams.answer())[0].split()[1] == status


@pytest.mark.parametrize(
    "last", [b"HTTP/1.0\r\nConnection: Upgrade", b"HTTP/1.1\r\nConnection: close, Upgrade"]
)
async def test_the_last_request_may_ask_for_an_upgrade_and_have_a_body(last):
    """Which still comes: it is waited for, and what follows it is not looked at."""
    async with client_of(opened()) as client, connected(client) as streams:
        wish = b"POST /raw %b\r\nHost: us\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n1"
        streams.writer.write(wish % last)
        await until(client.running.metrics.held_bytes)
        streams.writer.write(b"2" + GET)
        assert (await streams.answer())[1] == b"12"
        assert await streams.reader.read() == b""


@pytest.mark.parametrize("path", [b"/healthz", b"/echo"])
async def test_a_request_that_was_answered_early_gets_no_second_answer(path):
    """Though the rest of its body can't be read: the connection ends."""
    async with client_of(opened()) as client, connected(client) as streams:
        chunked = b"\r\nHost: us\r\nTransfer-Encoding: chunked\r\n\r\n"
        streams.writer.write(b"GET %b HTTP/1.1%b" % (path, chunked))
        await streams.answer()
        streams.writer.write(b"zz\r\n")
        assert await streams.reader.read() == b""


async def test_a_connection_goes_on_when_the_rest_of_a_refused_body_has_come(monkeypatch):
    """As long as after any other answer; one whose rest does not come ends soon."""
    monkeypatch.setattr(limits, "LINGERING", 0.2)
    head = b"PUT /nowhere HTTP/1.1\r\nHost: us\r\nContent-Length: 2\r\n\r\n1"
    async with (
        client_of(opened()) as client,
        connected(client) as whole,
        connected(client) as half,
    ):
        for each in (whole, half):
            each.writer.write(head)
            assert (await each.answer())[0].split()[1] == b"404"
        whole.writer.write(b"2")
        assert await half.reader.read() == b""
        whole.post(b"/echo", b"1")
        assert (await whole.answer())[1] == b"1"


async def test_what_follows_the_last_request_is_not_looked_at():
    """Its answer says that the connection ends with it."""
    async with client_of(opened()) as client, connected(client) as streams:
        streams.post(b"/echo", b"1", b"Connection: close")
        streams.post(b"/echo", b"2")
        answers = await streams.reader.read()
        assert answers.count(b"HTTP/1.1 200 OK") == 1
        assert b"\r\nConnection: close\r\n" in answers


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /" + b"a" * 33_000 + b" HTTP/1.1\r\nHost: us\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: us\r\nA: " + b"a" * 33_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: us\r\n" + b"A: a\r\n" * 200 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: us\r\nA: " + b"a" * 60_000, b"431"),
        (b"GET /" + b"a" * 60_000, b"414"),
        (b"\r\n" * 30_000, b"431"),
    ],
    ids=["long target", "long header", "many headers", "no end", "no end of the target", "nothing"],
)
async def test_a_head_has_its_limits(head, status):
    """Of 32 KiB and 128 headers: more is told so, and not kept."""
    async with client_of(opened()) as client, connected(client) as streams:
        streams.writer.write(head)
        answer, _ = await streams.answer()
        assert answer.split()[1] == status


async def test_a_head_of_nearly_the_limit_is_taken_wherever_it_begins():
    """Aiohttp, to which it may be passed on, has no lower limits of its own."""
    header = b"A: " + b"a" * 32_000 + b"\r\n"
    async with client_of(opened()) as client, connected(client) as streams:
        for path, status in ((b"/echo", b"200"), (b"/healthz", b"405")):
            streams.post(path, b"1")
            await streams.answer()
            streams.writer.write(
                b"POST %b HTTP/1.1\r\nHost: us\r\nContent-Length: 1\r\n%b\r\n1" % (path, header)
            )
            assert (await streams.answer())[0].split()[1] == status


# ------------------------------------------------------------------------------- clients that leave


async def test_a_client_that_hangs_up_leaves_the_queue():
    """No answer is computed for it."""
    service = Service()

    @service.endpoint("/", policy="window:1h")
    async def never(items):
        raise AssertionError(items)

    async with client_of(service) as client:
        async with connected(client) as streams:
            streams.post(b"/", b"1")
            await until(lambda: client.stats("/").queued)
        await until(lambda: not client.stats("/").queued)
        await client.running._router.emptied()


async def test_a_client_leaves_with_a_body_that_is_whole_and_waits_for_its_turn():
    """As it does where the buffer is full when the body is asked for: it counts no longer."""
    async with client_of(opened()) as client:
        async with connected(client) as streams:
            streams.writer.write(b"POST /echo HTTP/1.1\r\nHost: us\r\nContent-Length: 2\r\n\r\n1")
            await until(client.running.metrics.held_bytes)
            [connection] = client.running._server._connections
            connection.pause_writing()  # as the loop does
            streams.writer.write(b"1")
            await until(lambda: connection._waiting)
            assert client.running.metrics.held_bytes() == 2
        await client.running._router.emptied()
        assert client.running.metrics.held_bytes() == 0


async def test_a_connection_that_waits_is_not_idle(monkeypatch):
    """It outlives the time after which idle ones are closed, and is closed when it is idle."""
    monkeypatch.setattr(limits, "IDLE", 0.05)
    held = Held()
    async with client_of(held.service) as client, connected(client) as streams:
        streams.post(b"/echo", b"1")
        await until(lambda: client.stats("/echo").running)
        loop = asyncio.get_running_loop()
        rung = loop.create_future()
        loop.call_later(0.2, rung.set_result, None)
        await rung
        held.gate.set()
        assert (await streams.answer())[1] == b"1"
        assert await streams.reader.read() == b""


async def test_a_client_that_leaves_before_its_page_is_no_error(caplog):
    """Health checks do it."""
    async with client_of(opened()) as client:
        for _ in range(10):
            async with connected(client) as streams:
                streams.writer.write(GET)
                streams.writer.write_eof()
                await streams.reader.read()
        await client.running._router.emptied()
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


ENDS = pytest.mark.parametrize("headers", [[], [b"Connection: close"]], ids=["stays", "ends"])


@ENDS
async def test_an_answer_of_which_nothing_is_taken_breaks_off(monkeypatch, headers):
    """Its client may have gone, or keeps it in our memory on purpose."""
    monkeypatch.setattr(limits, "IDLE", 0.05)
    async with client_of(opened()) as client, connected(client) as streams:
        streams.writer.transport.pause_reading()
        streams.post(b"/large", b"1", *headers)
        await until(lambda: client.running.endpoints["/large"].responses[200])
        await until(lambda: not client.running._server._connections)


@ENDS
async def test_an_answer_that_is_taken_slowly_arrives_whole(headers):
    """However long that takes."""
    async with client_of(opened()) as client, connected(client) as streams:
        streams.post(b"/large", b"1", *headers)
        await until(lambda: client.running.endpoints["/large"].responses[200])
        [connection] = client.running._server._connections
        taken, looks = b"", 0
        while len(taken) < 2**23 or not taken.endswith(b"\r\n\r\n" + b"1" * 2**23):
            piece = await streams.reader.read(2**18)
            assert piece
            taken += piece
            if connection._transport.get_write_buffer_size() not in (0, connection._idle._unsent):
                connection._idle.until = 0.0
                connection._idle.look()
                looks += 1
        assert looks > 2


@pytest.mark.parametrize("beginning", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: us\r\nA"])
async def test_a_head_that_does_not_come_ends_the_connection(monkeypatch, beginning):
    """However much of it there is."""
    monkeypatch.setattr(limits, "IDLE", 0.05)
    async with client_of(opened()) as client, connected(client) as streams:
        streams.writer.write(beginning)
        assert await streams.reader.read() == b""


async def test_an_answer_that_is_not_read_holds_up_the_next():
    """A client that does not read has one answer in our memory, not as many as it asks for."""
    held = Held()
    async with client_of(held.service) as client, connected(client) as streams:
        streams.writer.transport.pause_reading()
        for number in range(3):
            streams.post(b"/large", b"%d" % number)
        responses = client.running.endpoints["/large"].responses
        await until(lambda: responses[200] == 1)
        streams.post(b"/large", b"3")
        streams.writer.transport.resume_reading()
        for number in range(4):
            assert responses[200] <= number + 2
            assert (await streams.answer())[1] == b"%d" % number * 2**23


@pytest.mark.parametrize("path", [b"/raw", b"/echo"])
async def test_requests_that_wait_behind_another_are_not_read(path):
    """What waits on a connection is bounded by what is read at once; the rest stays outside."""
    held = Held()
    async with client_of(held.service) as client, connected(client) as streams:
        streams.post(b"/echo", b"1")
        await until(lambda: client.stats("/echo").running)
        body, header = b"1" * 999, b"X-Long: " + b"x" * 7000  # 10 MB: more than sockets hold
        streams.writer.transport.set_write_buffer_limits(0)
        for _ in range(1250):
            streams.post(path, body, header)
        drained = asyncio.ensure_future(streams.writer.drain())
        await asyncio.sleep(0)
        assert not drained.done()
        held.gate.set()
        assert (await streams.answer())[1] == b"1"
        for _ in range(1250):
            await streams.answer()
        await drained


async def test_who_waits_for_the_request_before_teaches_nothing():
    """How long our loop takes to turn to a request is not seen in one whose turn is later."""
    held = Held()
    async with client_of(held.service) as client, connected(client) as streams:
        for number in range(4):
            streams.post(b"/echo", b"%d" % number)
        await until(lambda: client.stats("/echo").running)
        asyncio.get_running_loop().call_later(0.2, held.gate.set)
        for number in range(4):
            assert (await streams.answer())[1] == b"%d" % number
        assert client.running._router._delay.allowance(10) < 0.1


async def test_what_can_not_be_begun_is_answered(caplog):
    """There is an answer for every error."""
    service = Service()

    @service.endpoint("/")
    async def unasked(items):
        raise AssertionError(items)

    class Broken(Tracing):
        def begin(self, *_about):
            raise RuntimeError("no spans today")

    async with client_of(service, tracer=Broken()) as client:
        answer = await client.post("/", 1)
    assert (answer.status, answer.error) == (500, "internal")
    assert "no spans today" in caplog.text


async def test_a_service_that_ends_answers_what_waits_and_closes():
    """And says so."""
    held = Held()
    async with client_of(held.service) as client, connected(client) as streams:
        streams.post(b"/echo", b"1")
        await until(lambda: client.stats("/echo").running)
        client.running.announce_end()
        held.gate.set()
        head, body = await streams.answer()
        assert (body, b"\r\nConnection: close\r\n" in head) == (b"1", True)
        assert await streams.reader.read() == b""


def test_no_header_becomes_two():
    """What servers say goes on in one line each, or not at all."""
    sent = head_of(Response(299, {"A": "b", "Date": "now"}, b"c"), "close")
    assert sent.split(b"\r\n") == [
        *(b"HTTP/1.1 299 ", b"A: b", b"Date: now", b"Content-Length: 1", b"Connection: close"),
        *(b"", b""),
    ]
    for value in ("a\r\nB: c", "a\nB", "a\0"):
        with pytest.raises(ValueError, match="one line each"):
            head_of(Response(200, {"A": value}, b""), "")
