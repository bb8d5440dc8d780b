"""Threats to a proxy that shares batches, by their numbers in docs/reference/threat_model.md."""

import asyncio
import json
import random

import pytest
from aiohttp import web

from adaptive_batching.wire.generic import GenericJSON
from tests.sidecar.raw import exchange, parsed
from tests.sidecar.streams import MALFORMED, WELL_FORMED


@pytest.mark.parametrize("stream", MALFORMED.values(), ids=MALFORMED)
async def test_t1_what_could_be_read_in_two_ways_goes_nowhere(model, before, stream):
    """One refusal, the end of the connection, and no request for the server."""
    client = await before()
    answers = parsed(await exchange(client.url, stream))
    assert [answer.status for answer in answers] in ([400], [505])
    assert model.seen == []
    assert (await client.predict(1))[0] == 200


@pytest.mark.parametrize("stream", WELL_FORMED.values(), ids=WELL_FORMED)
async def test_t1_a_request_inside_a_body_is_a_body(model, before, stream):
    """As many answers and requests as there are, and none that was smuggled."""
    client = await before()
    answers = parsed(await exchange(client.url, stream))
    assert {answer.status for answer in answers} == {200}
    assert len(model.seen) == len(answers) == (2 if b"/second" in stream else 1)
    assert not any(b"/smuggled" in answer.body for answer in answers)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"instances": ' + b"[" * 100_000,
        b'{"instances": [' + b"9" * 100_000 + b"]}",
        b'{"instances": ["\xff"]}',
        b'\xef\xbb\xbf{"instances": [1]}',
        b'{"instances": [1], "instances": [2, 3]}',
        b'{"instances": ["\\ud800"]}',
        b'{"instances": [1]} {"instances": [2]}',
        b"",
    ],
    ids=range(9),
)
async def test_t5_odd_json_is_the_servers_to_judge(model, before, body):
    """We neither fail nor let it into a batch with others."""
    client = await before()
    async with client.session.post(f"{client.url}/v1/models/m:predict", data=body) as response:
        text = await response.text()
    assert "handler_error" not in text
    assert "internal" not in text
    assert (await client.predict(4))[1] == {"predictions": [8]}


async def test_t7_no_client_takes_a_header_from_another_side(model, before):
    """Those of the connection end with it; who asks cannot be made to vanish."""
    client = await before()
    sent = (
        b"PUT /x HTTP/1.1\r\nHost: h\r\nConnection: close, Authorization, X-Own, TE\r\n"
        b"Authorization: me\r\nX-Own: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\n"
        b"Proxy-Authorization: p\r\nContent-Length: 0\r\n\r\n"
    )
    [answer] = parsed(await exchange(client.url, sent))
    [seen] = model.seen
    assert seen["Authorization"] == "me"
    assert {"X-Own", "TE", "Keep-Alive", "Proxy-Authorization"}.isdisjoint(seen)
    assert "Keep-Alive" not in answer.headers


@pytest.mark.parametrize("given", ["Order-66", "a b", "<script>", "a" * 65])
async def test_t7_request_ids_are_harmless_or_ours(model, before, given):
    client = await before()
    *_, headers = await client.predict(1, **{"X-Request-Id": given})
    assert (headers["X-Request-Id"] == given) is (given == "Order-66")


async def test_t8_everybody_gets_his_own(model, before):
    """Three hundred requests of three tenants in any order: tag and tenant come back together."""
    told = []

    async def predict(request):
        inputs = json.loads(await request.text())
        told.append({each["tenant"] for each in inputs} | {request.headers["Authorization"]})
        return web.json_response([{"own": each} for each in inputs])

    runner = web.ServerRunner(web.Server(predict))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    client = await before(
        server=f"http://127.0.0.1:{site.port}", form=GenericJSON(), policy="window:5ms"
    )

    async def visit(number):
        item = {"tag": random.random(), "tenant": f"t{number % 3}", "long": "x" * (number % 50)}
        headers = {"Authorization": item["tenant"]}
        async with client.session.post(f"{client.url}/", json=[item], headers=headers) as response:
            assert await response.json() == [{"own": item}]
            return int(response.headers["X-Batch-Size"])

    sizes = await asyncio.gather(*map(visit, range(300)))
    assert max(sizes) > 1
    assert all(len(tenants) == 1 for tenants in told)
    await runner.cleanup()


async def test_t9_redirects_are_answers_and_are_not_followed(model, before):
    """The canary is never asked, neither for a batch nor for what is passed on."""
    asked = []

    async def canary(request):
        asked.append(request.path)
        return web.Response()

    async def elsewhere(request):
        return web.Response(status=302, headers={"Location": f"http://127.0.0.1:{sites[0].port}/"})

    runners = [web.ServerRunner(web.Server(handler)) for handler in (canary, elsewhere)]
    sites = []
    for runner in runners:
        await runner.setup()
        sites.append(web.TCPSite(runner, "127.0.0.1", 0))
        await sites[-1].start()
    client = await before(server=f"http://127.0.0.1:{sites[1].port}")
    for path, status in (("/v1/models/m:predict", 502), ("/else", 302)):
        async with client.session.post(
            client.url + path, json={"instances": [1]}, allow_redirects=False
        ) as response:
            assert response.status == status
    assert asked == []
    for runner in runners:
        await runner.cleanup()


async def test_t17_errors_say_nothing_of_what_is_behind(before, unused_tcp_port):
    """A code and an id: no address, no path, no exception."""
    client = await before(server=f"http://127.0.0.1:{unused_tcp_port}")
    for path in ("/v1/models/m:predict", "/else"):
        async with client.session.post(client.url + path, json={"instances": [1]}) as response:
            body = await response.json()
            assert response.status in {502, 503}
            assert {*body} == {"error", "request_id"}
            assert body["error"] in {"upstream_lost", "no_workers"}


async def test_f19_a_loop_that_stood_still_refuses_nobody(model, before):
    """Deadlines are judged by the time that has passed; what came meanwhile is answered."""
    import time

    client = await before(max_latency=5.0)
    await client.predict(0)
    asking = [asyncio.ensure_future(client.predict(number)) for number in range(8)]
    await asyncio.sleep(0)
    time.sleep(0.5)  # noqa: ASYNC251  the stall itself
    assert [status for status, *_ in await asyncio.gather(*asking)] == [200] * 8
