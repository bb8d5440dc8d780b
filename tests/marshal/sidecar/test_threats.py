"""Threats to a proxy that shares batches, by their numbers in docs/reference/threat_model.md."""

import asyncio
import json
import pickle
import random

import aiohttp
import pytest
from aiohttp import web

from adaptive_batching.wire.error_reply import MESSAGES
from adaptive_batching.wire.generic import GenericJSON
from adaptive_batching.wire.open_inference import OpenInference
from tests.marshal.sidecar.peers.raw import exchange, parsed
from tests.marshal.sidecar.peers.scripted import OK, scripted
from tests.marshal.sidecar.peers.streams import MALFORMED, WELL_FORMED, requests_of
from tests.workers.conditions import until


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
    assert len(model.seen) == len(answers) == requests_of(stream)
    assert not any(b"/smuggled" in answer.body for answer in answers)


async def test_t1_no_batch_has_a_body_in_a_coding(model, before):
    """Neither would the server be told of the coding, nor anything be undone."""
    client = await before()
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
    body = b'13\r\n{"instances": [21]}\r\n0\r\n\r\n'
    for coding, status in ((b"gzip, chunked", 400), (b"Chunked", 200)):
        sent = head + coding + b"\r\nConnection: close\r\n\r\n" + body
        assert [each.status for each in parsed(await exchange(client.url, sent))] == [status]
    assert model.batches == [[21]]


@pytest.mark.parametrize("target", [b"/x#y", b"http://h/x#y", b"/v1/models/m:predict?x#y"])
async def test_t1_a_fragment_goes_nowhere(model, before, target):
    """A route could be chosen by more of it than the server looks at, on either path."""
    client = await before()
    body = b'{"instances": [21]}'
    head = b"POST " + target + b" HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert [each.status for each in parsed(await exchange(client.url, head + body))] == [400]
    assert model.seen == []


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


@pytest.mark.parametrize(
    ("name", "told"),
    [
        *((each, "alice") for each in ("Cookie", "api-key", "X-Auth-Token", "X-Forwarded-User")),
        *((each, "alice") for each in ("Accept-Language", "Host", "Idempotency-Key")),
        *((each, "unknown") for each in ("X-Forwarded-For", "X-Real-IP", "True-Client-IP")),
        *(("Forwarded", "for=unknown"), ("User-Agent", None)),
    ],
)
async def test_t8_a_header_by_which_clients_are_told_apart_reaches_the_server(
    model, before, name, told
):
    """In a batch of several it is everybody's, or unknown; a request that is alone has its own."""
    client = await before()
    answers = await client.together(
        model,
        client.predict(0, **{name: "lone"}),
        *(client.predict(number, **{name: "alice"}) for number in (1, 2)),
        client.predict(3, **{name: "bob"}),
        queued=3,
    )
    assert [answer["predictions"] for _, answer, _ in answers] == [[0], [2], [4], [6]]
    lone, *seen = [
        (len(batch), headers.get(name))
        for batch, headers in zip(model.batches, model.seen, strict=True)
    ]
    assert lone == (1, "lone")
    apart = [(2, "alice"), (1, "bob")]
    assert sorted(seen, reverse=True) == (apart if told == "alice" else [(3, told)])


async def test_t8_a_rule_about_addresses_refuses_a_batch(before):
    """A server that trusts its own machine does not take a batch of strangers for it."""

    async def guarded(request):
        came_from = request.headers.get("X-Forwarded-For", "127.0.0.1")
        if not came_from.startswith("127."):
            return web.json_response({"error": f"{came_from} may not"}, status=403)
        instances = (await request.json())["instances"]
        return web.json_response({"predictions": instances})

    runner = web.ServerRunner(web.Server(guarded))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    client = await before(server=f"http://127.0.0.1:{site.port}", policy="window:1h")
    address = {"X-Forwarded-For": "203.0.113.9"}
    together = [asyncio.ensure_future(client.predict(n, **address)) for n in range(8)]
    await until(lambda: client.running.dispatchers["models"].stats().queued == 8)
    client.running.runtimes.flush()
    told = {(status, answer["error"]) for status, answer, _ in await asyncio.gather(*together)}
    assert told == {(403, "unknown may not")}
    assert (await client.predict(1, **address))[:2] == (403, {"error": "203.0.113.9 may not"})
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
            assert {*body} == {"error", "request_id", "message"}
            assert body["error"] in {"upstream_lost", "no_workers"}
            assert body["message"] == MESSAGES[body["error"]]


async def test_f19_a_loop_that_stood_still_refuses_nobody(model, before):
    """Deadlines are judged by the time that has passed; what came meanwhile is answered."""
    import time

    client = await before(max_latency=60.0)
    await client.predict(0)
    asking = [asyncio.ensure_future(client.predict(number)) for number in range(8)]
    await asyncio.sleep(0)
    time.sleep(0.5)  # noqa: ASYNC251  the stall itself
    assert [status for status, *_ in await asyncio.gather(*asking)] == [200] * 8


class Canary:
    """What a pickle of it would do to whoever reads it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


async def test_t6_nobodys_pickles_are_read(before, tmp_path):
    """Neither a client's nor a server's: they are bytes, passed on or not shared out."""
    canary = tmp_path / "canary"
    pickled = pickle.dumps(Canary(str(canary)))
    seen = []

    async def script(exchange):
        seen.append(exchange.body)
        headers = OK.replace(b"application/json", b"application/octet-stream")
        await exchange.write(headers + b"Content-Length: %d\r\n\r\n" % len(pickled) + pickled)

    async with scripted(script) as server:
        client = await before(servers=[server.url])
        sent = [pickled, json.dumps({"instances": [1]}).encode()]
        for body in sent:
            for kind in ("application/python-pickle", "application/json"):
                async with client.session.post(
                    f"{client.url}/v1/models/m:predict", data=body, headers={"Content-Type": kind}
                ) as response:
                    assert await response.read() == pickled
        together = (client.predict(number) for number in range(4))
        with pytest.raises(aiohttp.ContentTypeError):
            await asyncio.gather(*together)
    assert seen[:4] == [sent[0]] * 2 + [sent[1]] * 2
    assert not canary.exists()


async def test_t13_no_web_page_does_anything_through_an_operators_browser(model, before):
    """Pages of the admin port are no HTML, open no socket, and act for programs only."""
    client = await before()
    admin = client.running.admin_url
    for path in ("/healthz", "/readyz", "/metrics", "/debug/batches"):
        async with client.session.get(admin + path) as response:
            assert response.status == 200, path
            assert response.content_type in {"application/json", "text/plain"}, path
    page = {"Origin": "http://evil.example"}
    async with client.session.post(f"{admin}/reload", headers=page) as response:
        assert response.status == 403
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await client.session.ws_connect(f"{admin}/metrics", headers=page)


@pytest.mark.parametrize(
    "lie",
    [
        {"model_name": "m", "id": "of somebody else", "outputs": [{"name": "y", "shape": [2, 1]}]},
        {"model_name": "m", "outputs": [{"name": "y", "shape": [10**18, 1], "data": [1, 2]}]},
        {"model_name": "m", "outputs": [{"name": "y", "shape": [-2, 1], "data": [1, 2]}]},
        {"model_name": "m", "outputs": [{"name": "y", "shape": [2, 1], "data": [1, 2, 3]}]},
        {"outputs": {"y": [1, 2]}},
        {"outputs": []},
        ["no object"],
    ],
    ids=range(7),
)
async def test_t15_what_a_server_makes_up_is_shared_out_to_nobody(before, lie):
    """Each member of such a batch is asked for alone, and gets what the server says to him."""
    alone = []

    async def script(exchange):
        if not exchange.body:  # a question about its models
            return await exchange.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        asked = json.loads(exchange.body)
        (tensor,) = asked["inputs"]
        rows = tensor["shape"][0]
        answer = lie
        if rows == 1:
            alone.append(asked["id"])
            output = {"name": "y", "shape": [1, 1], "datatype": "INT64", "data": tensor["data"]}
            answer = {"model_name": "m", "id": asked["id"], "outputs": [output]}
        body = json.dumps(answer).encode()
        return await exchange.write(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async with scripted(script) as server:
        client = await before(servers=[server.url], form=OpenInference(), policy="window:50ms")

        async def ask(number):
            tensor = {"name": "x", "shape": [1, 1], "datatype": "INT64", "data": [number]}
            body = {"id": f"id {number}", "inputs": [tensor]}
            async with client.session.post(f"{client.url}/v2/models/m/infer", json=body) as told:
                return await told.json()

        for number, answer in enumerate(await asyncio.gather(ask(0), ask(1))):
            assert answer["id"] == f"id {number}"
            assert answer["outputs"][0]["data"] == [number]
        assert len(server.exchanges) > len(alone) == 2
