"""A sidecar before a model server: who shares a batch, and what everybody gets back."""

import json
from collections import Counter

import pytest

from adaptive_batching.core import JobOutcome
from tests.marshal.sidecar.peers.scripted import OK, scripted


async def test_requests_share_a_batch(model, before):
    """Those that come while the server is busy go together, and each gets its own answer."""
    client = await before()
    requests = [client.predict(n, 10 * n) for n in range(6)]
    answers = await client.together(model, *requests, queued=10)
    assert [answer for _, answer, _ in answers] == [
        {"predictions": [2 * n, 20 * n]} for n in range(6)
    ]
    assert model.batches == [[0, 0], [1, 10, 2, 20, 3, 30, 4, 40, 5, 50]]
    assert [headers["X-Batch-Size"] for *_, headers in answers] == ["2"] + ["10"] * 5
    assert [headers["X-Batch-Id"] for *_, headers in answers] == ["1"] + ["2"] * 5
    assert all("upstream;dur=" in headers["Server-Timing"] for *_, headers in answers)


async def test_nobody_gets_what_is_said_to_another(model, before):
    """No client gets a cookie of a batch's answer; different credentials have their own batches."""
    client = await before()
    answers = await client.together(
        model,
        client.predict(1),
        client.predict(2, Authorization="Bearer a", Cookie="session=a"),
        client.predict(3, Authorization="Bearer b", Cookie="session=b"),
        client.predict(4, Authorization="Bearer a", Cookie="session=a"),
        client.predict(5, model="other"),
        queued=4,
    )
    assert sorted(model.batches) == [[1], [2, 4], [3], [5]]
    for name, value in (("Authorization", "Bearer"), ("Cookie", "session")):
        told = sorted(headers[name] for headers in model.seen if name in headers)
        assert [each.split(value)[1].strip(" =") for each in told] == ["a", "b"]
    assert not any("Set-Cookie" in headers for *_, headers in answers)


async def test_each_content_type_has_batches_of_its_own(model, before):
    """What a server refuses of one client alone, it refuses of his batch, and of no other."""
    client = await before()
    form = "application/x-www-form-urlencoded"
    requests = [client.predict(n, Content_Type=form) for n in range(3)]
    requests += [client.predict(n) for n in (3, 4)]
    await client.together(model, *requests, queued=4)
    told = [headers["Content-Type"] for headers in model.seen]
    assert [*zip(model.batches, told, strict=True)] == [
        ([0], form), ([1, 2], form), ([3, 4], "application/json")
    ]  # fmt: skip


async def test_a_trace_goes_on_with_a_request_that_goes_alone(model, before):
    """Several are in no trace of any one of them."""
    client = await before()
    traces = [f"00-{n:032x}-{n:016x}-01" for n in (1, 2, 3)]
    requests = [client.predict(1, traceparent=trace, tracestate="a=b") for trace in traces]
    await client.together(model, *requests, queued=2)
    told = [(headers.get("traceparent"), headers.get("tracestate")) for headers in model.seen]
    assert told == [(traces[0], "a=b"), (None, None)]


async def test_a_bad_request_fails_alone(model, before):
    """Its client gets the server's own words, the others their answers."""
    client = await before()
    instances = [1, 2, "bad", 3, 4]
    requests = [client.predict(0), *map(client.predict, instances)]
    answers = await client.together(model, *requests, queued=5)
    assert [status for status, *_ in answers] == [200, 200, 200, 400, 200, 200]
    assert answers[3][1] == {"error": "bad instance"}
    assert answers[4][1] == {"predictions": [6]}


async def test_an_answer_of_the_wrong_length(model, before):
    """Each is asked for alone, and from then on the server is sent no more batches of that kind."""
    client = await before()
    requests = map(client.predict, [0, "short", 1])
    answers = await client.together(model, *requests, queued=2)
    assert [answer["predictions"] for _, answer, _ in answers] == [[0], ["shortshort"], [2]]
    model.batches.clear()
    await client.together(model, *map(client.predict, range(4)), queued=3)
    assert sorted(model.batches) == [[0], [1], [2], [3]]


async def test_a_request_over_the_limit(model, before):
    """In pieces: the answer comes back whole, with what is said of the largest of their batches."""
    client = await before(max_batch_size=4)
    status, answer, headers = await client.predict(*range(10))
    assert (status, answer) == (200, {"predictions": [2 * n for n in range(10)]})
    assert sorted(map(len, model.batches)) == [2, 4, 4]
    assert (headers["X-Batch-Size"], headers["X-Batch-Id"]) == ("4", "1")


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_request_over_the_limit_that_can_not_be_cut(before, idempotent):
    """Once it is known that its answers can't be joined it goes whole, and gets what is said."""

    async def sums_up(exchange):
        total = sum(json.loads(exchange.body)["instances"])
        body = b'{"predictions": [%d]}' % total
        await exchange.write(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async with scripted(sums_up) as server:
        more = {"idempotent": idempotent}
        client = await before(servers=[server.url], max_batch_size=4, more=more)
        first, second = [await client.predict(*range(10)) for _ in range(2)]
        assert first[0] == (200 if idempotent else 502)
        assert second[:2] == (200, {"predictions": [45]})
        assert second[2]["X-Batch-Size"] == "10"
        assert len(server.bodies[-1]) == 10


async def test_a_request_that_the_queue_never_has_room_for(model, before):
    """It is told so, and not to try again later."""
    client = await before(max_batch_size=2, more={"max_queue": 4})
    assert (await client.predict(*range(4)))[0] == 200
    status, answer, headers = await client.predict(*range(5))
    assert (status, answer["error"]) == (413, "too_many_items")
    assert "Retry-After" not in headers
    [dispatcher] = client.running.dispatchers.values()
    assert +Counter(dispatcher.stats().requests) == {JobOutcome.DONE: 2, JobOutcome.SHED: 1}
    assert (await client.predict(*[1] * 70_000))[0] == 413  # which are not even cut


async def test_the_server_is_told_how_long_its_answer_is_waited_for(model, before):
    """What is left to the one who waits longest; nothing if somebody waits as long as it takes."""
    client = await before(max_latency=8.0)
    requests = [client.predict(n, X_Request_Timeout_Ms=f"{n}000") for n in (2, 3, 4)]
    await client.together(model, *requests, queued=2)
    told = [int(headers["X-Request-Timeout-Ms"]) for headers in model.seen]
    assert 0 < told[0] <= 2000
    assert 2000 < told[1] <= 4000
    client = await before()
    await client.predict(1)
    assert "X-Request-Timeout-Ms" not in model.seen[-1]


async def test_a_server_without_time(model, before):
    """All of the batch are told what it said, and when to come again."""
    client = await before()
    requests = map(client.predict, [0, "busy", 1])
    answers = await client.together(model, *requests, queued=2)
    assert [status for status, *_ in answers] == [200, 503, 503]
    assert [headers.get("Retry-After") for *_, headers in answers] == [None, "7", "7"]


async def test_a_server_that_is_not_there(before, unused_tcp_port):
    """502, in our own words."""
    client = await before(servers=[f"http://127.0.0.1:{unused_tcp_port}"])
    status, answer, _ = await client.predict(1)
    assert (status, answer["error"]) == (502, "upstream_lost")
    async with client.session.get(f"{client.url}/v1/models/m") as response:
        assert response.status == 502


@pytest.mark.parametrize("header", ["X-Request-Timeout-Ms", "X-Envoy-Expected-Rq-Timeout-Ms"])
async def test_a_client_that_waits_for_so_long_only(model, before, header):
    """It is told when its time is over, whatever the server does."""
    client = await before()
    model.gate.clear()
    status, answer, _ = await client.predict(1, **{header: "500"})
    assert (status, answer["error"]) == (504, "deadline_exceeded")


async def test_whatever_is_not_understood_is_passed_on(model, before):
    """With its method, query, cookies and body; the answer comes back with its own."""
    client = await before(max_body=1000)
    session, url = client.session, client.url
    async with session.put(f"{url}/some%2Fwhere?x=%20y", data=b"abc") as response:
        assert await response.read() == b"PUT /some%2Fwhere?x=%20y 3"
        assert (response.headers["Set-Cookie"], response.headers["ETag"]) == ("a=b", '"1"')
    async with session.head(f"{url}/v1/models/m") as response:
        assert response.status == 200
    async with session.post(f"{url}/v1/models/m:generate", data=b"{}") as response:
        assert await response.read() == b"POST /v1/models/m:generate 2"
    async with session.post(f"{url}/v1/models/m:predict", data=b"not json") as response:
        assert response.status == 500  # from the server, which can't read it either
    async with session.post(f"{url}/echo", data=b"x" * 5000) as response:
        assert await response.read() == b"POST /echo 5000"


async def test_streams_flow(model, before):
    """What the server sends is there before it has sent the rest."""
    client = await before()
    model.gate.clear()
    async with client.session.get(f"{client.url}/stream") as response:
        assert await response.content.readuntil(b"\n\n") == b"data: 0\n\n"
        model.gate.set()
        assert await response.read() == b"data: 1\n\ndata: 2\n\n"
