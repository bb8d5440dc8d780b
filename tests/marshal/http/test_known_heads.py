"""A head that came before means what it meant then, and is parsed no second time."""

import asyncio
import random
from collections import Counter

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpRequestParser
from aiohttp.http_exceptions import BadHttpMessage
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adaptive_batching.marshal.http.known_heads import KnownHeads
from adaptive_batching.marshal.http.parser import Parser
from tests.marshal.client import client_of, until
from tests.marshal.http.test_fast_path import (
    Held,
    connected,
    connection_of,
    connections_of,
    use_the_usual_path,
)

_LINES = [
    b"Content-Length: 4",
    b"Content-Length: 2",
    b"Content-Length : 4",
    b"Transfer-Encoding: chunked",
    b"Connection: close",
    b"X-Some: thing",
    b" folded",
    b"",
]
_ENDS = [b"\r\n", b"\r\n", b"\r\n", b"\r\n", b"\r\n", b"\r\n", b"\n", b"\n\r\n", b"\r\r\n"]
_BODIES = [b"1234", b"12", b"1", b"", b"0\r\n\r\n", b"\r\n\r\n", b"1\r\nx\r\n0\r\n\r\n", b"abcd"]


@pytest.fixture(scope="module")
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def parsed(parser, data):
    """What a parser makes of some bytes, in words, for messages are equal to themselves only."""
    try:
        messages, _, _ = parser.feed_data(data)
    except BadHttpMessage:
        return None
    return [
        (repr(message), b"".join(getattr(body, "_buffer", ())), body.is_eof())
        for message, body in messages
    ]


@settings(max_examples=1000)
@given(
    st.lists(st.tuples(st.sampled_from(_LINES), st.sampled_from(_ENDS)), max_size=3),
    st.lists(st.sampled_from(_BODIES), min_size=2, max_size=4),
)
@example([(b"Transfer-Encoding: chunked", b"\r\n")], [b"1\r\nx\r\n0\r\n\r\n", b"1"])
@example([(b"Content-Length: 2", b"\r\n")], [b"12", b"1234"])
@example([(b"Content-Length: 4", b"\r\n")], [b"1234", b"abcd"])
def test_what_is_recalled_is_what_would_be_parsed(loop, lines, bodies):
    """Whatever a head looks like: line ends, lengths and codings that contradict each other."""
    head = (
        b"POST / HTTP/1.1\r\nHost: us\r\n" + b"".join(line + end for line, end in lines) + b"\r\n"
    )
    parser = HttpRequestParser(BaseProtocol(loop), loop, 2**16, max_msg_queue_size=9)
    heads = KnownHeads()
    for body in bodies:
        data = head + body
        recalled, made = heads.recall(data), parsed(parser, data)
        if recalled is not None:
            assert made == [(recalled[0], recalled[1], True)]
        if not made or len(made) > 1 or not made[0][2]:
            return
        message, content, _ = made[0]
        if "should_close=True" in message or not heads.learn(data, message, content):
            return


def test_heads_are_forgotten_when_there_are_too_many():
    """Where each is new, some of them are kept and the others are not; long ones never."""
    heads = KnownHeads()
    for number in range(2000):
        data = b"POST / HTTP/1.1\r\nX-Request-Id: %d\r\n\r\n1" % number
        assert heads.learn(data, number, b"1")
    assert heads.recall(data) == (1999, b"1")
    assert heads.recall(data.replace(b"1999", b"1")) is None
    assert len(heads._known) <= 256
    long = b"POST / HTTP/1.1\r\nX-Some: %b\r\n\r\n1" % (b"x" * 4000)
    assert heads.learn(long, 1, b"1")
    assert heads.recall(long) is None


@pytest.fixture
def fed(monkeypatch):
    """How often a server's parsers were asked."""
    counts, feed_data = Counter(), Parser.feed_data

    def counted(parser, data):
        counts["fed"] += 1
        return feed_data(parser, data)

    monkeypatch.setattr(Parser, "feed_data", counted)
    return counts


async def test_a_request_like_the_last_is_not_parsed(fed):
    """Of one connection or of another; but after anything else on a connection, all are."""
    held = Held()
    held.gate.set()
    async with client_of(held.service) as client:
        for _ in range(2):
            async with connected(client) as streams:
                for number in range(5):
                    streams.post(b"/echo", b"%d" % number)
                    assert (await streams.answer())[1] == b"%d" % number
        assert fed["fed"] == 1
        async with connected(client) as streams:
            head = b"POST /echo HTTP/1.1\r\nHost: us\r\nTransfer-Encoding: chunked\r\n\r\n"
            streams.writer.write(head + b"1\r\n1\r\n0\r\n\r\n")
            assert (await streams.answer())[1] == b"1"
            for number in range(3):
                streams.post(b"/echo", b"%d" % number)
                assert (await streams.answer())[1] == b"%d" % number
        assert fed["fed"] == 5


async def test_a_known_request_that_needs_a_task_gets_one(fed):
    """What can't take the fast path is parsed for aiohttp, and answered as ever."""
    held = Held()
    held.gate.set()
    held.service.endpoint("/slow", policy="greedy")(held.echo)
    async with client_of(held.service) as client, connected(client) as streams:
        for _ in range(3):
            streams.post(b"/nowhere", b"1")
            assert b" 404 " in (await streams.answer())[0]
        streams.post(b"/echo", b"1")
        assert (await streams.answer())[1] == b"1"
        assert connection_of(client)._in_step
        assert fed["fed"] == 4


@pytest.mark.parametrize(
    "before",
    [
        b"POST /raw HTTP/1.1\r\nX-Evil: ",
        b"POST /echo HTTP/1.1\r\nX-Request-Id: evil\r\nX-Evil: ",
        b"\r",
        b"POST /raw HTTP/1.1\r\nHost: us\r\nContent-Length: 1\r\n\r\n",
    ],
)
async def test_nobody_says_what_the_heads_of_others_mean(before):
    """The same bytes, where they are no beginning of a request: a value, a body, or anything."""
    held = Held()
    held.gate.set()
    async with client_of(held.service) as client, connected(client) as victim:
        victim.post(b"/echo", b"[1]")
        await victim.answer()
        async with connected(client) as attacker:
            attacker.writer.write(before)
            await until(lambda: any(not each._in_step for each in connections_of(client)))
            attacker.post(b"/echo", b"[1]")
            await attacker.reader.read(1)
            victim.post(b"/echo", b"[1]")
            answer, body = await victim.answer()
        assert body == b"[1]"
        assert b"application/json" in answer
        assert b"evil" not in answer


def drawn(draw):
    """Some bytes, and how many answers there are to them."""
    body = b"%d" % draw.randint(0, 9)
    head = b"POST /echo HTTP/1.1\r\nHost: us\r\n"
    plain = head + b"Content-Length: 1\r\n\r\n" + body
    return draw.choice(
        [
            *[(plain, 1)] * 60,
            (plain + plain, 2),
            (b"\r\n" + plain, 1),
            (plain + b"\r\n", 1),
            (head + b"Content-Length: 3\r\n\r\n12" + body, 1),
            (head + b"Transfer-Encoding: chunked\r\n\r\n1\r\n%b\r\n0\r\n\r\n" % body, 1),
            (b"GET /healthz HTTP/1.1\r\nHost: us\r\n\r\n", 1),
        ]
    )


async def answers_in(client, exchanges, draw):
    answers = []
    async with connected(client) as streams:
        for data, count in exchanges:
            place = draw.randrange(len(data)) if draw.random() < 0.02 else 0
            streams.writer.write(data[:place])
            await asyncio.sleep(0.001 if place else 0)
            streams.writer.write(data[place:])
            for _ in range(count):
                head, body = await streams.answer()
                answers.append((head.split()[1], body))
    return answers


async def test_whatever_is_said_in_turns_is_answered_as_ever(fed):
    """Known requests among others, whole and in pieces, on the fast path and on the usual one."""
    held, draw = Held(), random.Random(7)
    held.gate.set()
    talks = [[drawn(draw) for _ in range(draw.choice([3, 10, 30]))] for _ in range(60)]
    async with client_of(held.service) as client:
        fast = [await answers_in(client, each, random.Random(7)) for each in talks]
        asked = fed["fed"]
        use_the_usual_path(client)
        assert fast == [await answers_in(client, each, random.Random(7)) for each in talks]
        assert asked < 0.8 * sum(map(len, talks))
