"""Models of a Triton: only those that take batches get them, and none that is too large."""

import asyncio
import json
from collections import Counter

import pytest
from aiohttp import web

from adaptive_batching.marshal.sidecar.upstream import models
from adaptive_batching.wire.open_inference import OpenInference
from tests.marshal.sidecar.peers.scripted import refusing, url_of
from tests.workers.conditions import until

TRITON = {"name": "triton", "extensions": ["classification", "model_configuration"]}


class Triton:
    """Sums up the rows of each request it gets, so that an answer shows who was merged.

    Attributes:
        models: Their configurations; to ask for another is an error 400.
        metadata: Of the server; None for a server that has none.
        gate: Closed, no request for rows is answered; `asked_gate`: none for a configuration.
        refusal: A status for whoever asks for a configuration; 0 for none.
    """

    def __init__(self, **models):
        self.models = models
        self.metadata = TRITON
        self.refusal = 0
        self.asked = Counter()
        self.credentials = []
        self.rows = []
        self.gate, self.asked_gate = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.asked_gate.set()

    def application(self):
        application = web.Application()
        for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
            application.router.add_get(f"{path}/config", self._config)
            application.router.add_post(f"{path}/infer", self._infer)
        application.router.add_get("/v2", self._server)
        application.router.add_post("/v2/repository/models/{model}/load", self._load)
        return application

    async def _config(self, request):
        self.asked[request.path] += 1
        self.credentials.append(request.headers.get("Authorization"))
        await self.asked_gate.wait()
        configuration = self.models.get(request.match_info["model"])
        if self.refusal or configuration is None:
            return web.json_response({"error": "no"}, status=self.refusal or 400)
        return web.json_response(configuration)

    async def _server(self, request):
        self.asked[request.path] += 1
        return web.json_response(self.metadata or {}, status=200 if self.metadata else 404)

    async def _load(self, request):
        loaded = await request.json()
        await self.gate.wait()
        self.models[request.match_info["model"]] = loaded
        return web.Response()

    async def _infer(self, request):
        (tensor,) = (await request.json())["inputs"]
        self.rows.append(tensor["shape"][0])
        await self.gate.wait()
        total, sums = 0, []
        for number in tensor["data"]:
            total += number
            sums.append(total)
        return web.json_response({"outputs": [{**tensor, "name": "y", "data": sums}]})


def configuration(max_batch_size, **more):
    return {"name": "m", "max_batch_size": max_batch_size, **more}


@pytest.fixture
async def triton():
    server = Triton()
    runner = web.AppRunner(server.application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{site.port}"
    yield server
    server.gate.set()
    server.asked_gate.set()
    await runner.cleanup()


async def ask(client, numbers, model="m", **headers):
    """Status and rows."""
    tensor = {"name": "x", "shape": [len(numbers)], "datatype": "INT64", "data": list(numbers)}
    url = f"{client.url}/v2/models/{model}/infer"
    body = {"inputs": [tensor]}
    async with client.session.post(url, json=body, headers=headers) as response:
        answer = await response.json()
        return response.status, answer["outputs"][0]["data"] if response.ok else answer


async def behind_one(client, triton, requests, *, waiting):
    """Let requests come while the server has one already, which it answers last."""
    triton.gate.clear()
    triton.rows.clear()
    first = asyncio.ensure_future(ask(client, [0]))
    await until(lambda: triton.rows)
    others = [asyncio.ensure_future(each) for each in requests]
    await until(waiting)
    triton.gate.set()
    await first
    return await asyncio.gather(*others)


def queued(client, items):
    return lambda: client.running.dispatchers["models"].stats().queued == items


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (configuration(0), "max_batch_size: 0"),
        (configuration(8, sequence_batching={}), "sequence_batching"),
        (configuration(8, model_transaction_policy={"decoupled": True}), "decoupled"),
    ],
    ids=["no batch dimension", "sequences", "decoupled"],
)
@pytest.mark.parametrize("path", ["m", "m/versions/3"])
async def test_a_model_that_takes_no_batches(triton, before, caplog, about, said, path):
    """Its requests are passed on as they came, whoever comes with them; that is in the log once."""
    triton.models["m"] = about
    client = await before(server=triton.url, form=OpenInference())
    triton.gate.clear()
    asking = [asyncio.ensure_future(ask(client, [n, n, n], path)) for n in range(12)]
    await until(lambda: len(triton.rows) == 12)
    triton.gate.set()
    assert await asyncio.gather(*asking) == [(200, [n, 2 * n, 3 * n]) for n in range(12)]
    assert triton.rows == [3] * 12
    assert triton.asked == {f"/v2/models/{path}/config": 1}
    assert caplog.text.count(said) == 1
    assert client.running.dispatchers["models"].stats().batches == 0


async def test_a_model_whose_batches_are_smaller_than_ours(triton, before, caplog):
    """No batch has more items than the model takes, and a larger request goes in parts."""
    triton.models["m"] = configuration(4, dynamic_batching={"max_queue_delay": 1})
    client = await before(server=triton.url, form=OpenInference(), max_batch_size=16)
    requests = [ask(client, [0]) for _ in range(9)] + [ask(client, [0] * 10)]
    answers = await behind_one(client, triton, requests, waiting=queued(client, 19))
    assert answers == [(200, [0])] * 9 + [(200, [0] * 10)]
    assert max(triton.rows) == 4
    assert sum(triton.rows) == 20
    assert len(triton.rows) < 9
    assert triton.asked == {"/v2/models/m/config": 1}
    assert "batches 'm' itself" in caplog.text


async def test_requests_wait_until_their_model_is_known(triton, before):
    """They go together as soon as the server has said that it takes batches; it is asked once."""
    triton.models["m"] = configuration(64)
    triton.asked_gate.clear()
    client = await before(server=triton.url, form=OpenInference())
    asking = [asyncio.ensure_future(ask(client, [n])) for n in range(20)]
    await until(lambda: client.running._router.in_flight == 20)
    assert not triton.rows
    triton.gate.clear()
    triton.asked_gate.set()
    await until(lambda: triton.rows)
    triton.gate.set()
    answers = await asyncio.gather(*asking)
    assert {status for status, _ in answers} == {200}
    assert sum(triton.rows) == 20
    assert len(triton.rows) <= 2
    assert triton.asked == {"/v2/models/m/config": 1}


@pytest.mark.parametrize("metadata", [None, {"name": "mlserver", "extensions": []}])
async def test_a_server_that_has_no_configurations(triton, before, metadata):
    """It batches as the protocol says: the first dimension is the batch."""
    triton.metadata = metadata
    client = await before(server=triton.url, form=OpenInference())
    requests = [ask(client, [0]) for _ in range(6)]
    await behind_one(client, triton, requests, waiting=queued(client, 6))
    assert triton.rows == [1, 6]
    assert triton.asked == {"/v2/models/m/config": 1, "/v2": 1}


@pytest.mark.parametrize("body", [b"[", b"[" * 5000, b'{"name": "m"}', b'{"max_batch_size": -1}'])
async def test_a_configuration_that_is_none(before, body):
    """What can't be read says nothing of batches, nor is it an error."""
    rows = []

    async def answer(request):
        if request.method == "GET":
            return web.Response(body=body)
        (tensor,) = json.loads(await request.text())["inputs"]
        rows.append(tensor["shape"][0])
        return web.json_response({"outputs": [tensor]})

    application = web.Application()
    application.router.add_route("*", "/{any:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    client = await before(server=f"http://127.0.0.1:{site.port}", form=OpenInference())
    assert await ask(client, [1, 2]) == (200, [1, 2])
    await runner.cleanup()


async def test_a_model_that_a_triton_does_not_have(triton, before):
    """It may be loaded at any time, and until then each request for it goes alone."""
    client = await before(server=triton.url, form=OpenInference())
    triton.models["m"] = configuration(64)
    requests = [ask(client, [1, 1], "later") for _ in range(5)]
    answers = await behind_one(client, triton, requests, waiting=queued(client, 10))
    assert answers == [(200, [1, 2])] * 5
    assert triton.asked["/v2/models/later/config"] == 1


async def test_a_model_that_is_loaded_anew(triton, before):
    """Nothing shares a batch while it is loaded; afterwards its server is asked once more."""
    triton.models["m"] = configuration(64)
    client = await before(server=triton.url, form=OpenInference())
    await behind_one(client, triton, [], waiting=lambda: True)
    triton.gate.clear()
    triton.rows.clear()
    url = f"{client.url}/v2/repository/models/m/load"
    loading = asyncio.ensure_future(client.session.post(url, json=configuration(0)))
    await until(lambda: client.running._router.in_flight == 1)
    asking = [asyncio.ensure_future(ask(client, [n, n])) for n in range(4)]
    await until(lambda: triton.rows and queued(client, 6)())
    triton.gate.set()
    async with await loading as response:
        assert response.status == 200
    assert await asyncio.gather(*asking) == [(200, [n, 2 * n]) for n in range(4)]
    asking = [ask(client, [n, n]) for n in range(4)]
    assert await asyncio.gather(*asking) == [(200, [n, 2 * n]) for n in range(4)]
    assert triton.rows == [2] * 8
    assert triton.asked == {"/v2/models/m/config": 2}


@pytest.mark.parametrize("status", [401, 503])
async def test_a_server_that_does_not_say(triton, before, caplog, monkeypatch, status):
    """Each request goes alone, which is in the log once; the server is asked again in time."""
    triton.models["m"] = configuration(64)
    triton.refusal = status
    client = await before(server=triton.url, form=OpenInference())
    assert await ask(client, [0], Authorization="Bearer a") == (200, [0])
    requests = [ask(client, [1, 1]) for _ in range(3)]
    assert await behind_one(client, triton, requests, waiting=queued(client, 6)) == (
        [(200, [1, 2])] * 3
    )
    assert triton.rows == [1, 2, 2, 2]
    assert triton.asked == {"/v2/models/m/config": 1}
    assert triton.credentials == ["Bearer a"]
    assert caplog.text.count(f"answered {status} to GET") == 1
    triton.refusal = 0
    monkeypatch.setattr(models, "monotonic", lambda: float("inf"))
    assert await ask(client, [0]) == (200, [0])
    await behind_one(client, triton, [], waiting=lambda: True)
    assert triton.asked == {"/v2/models/m/config": 2}


async def test_nobody_waits_beyond_the_deadline(triton, before):
    """A server that hangs when it is asked for a configuration makes no request late."""
    triton.asked_gate.clear()
    client = await before(server=triton.url, form=OpenInference(), max_latency=0.05)
    status, _ = await ask(client, [0])
    assert status == 503
    assert not triton.rows


async def test_a_server_that_was_away(triton, before):
    """It may have other models when it is back, and is asked anew."""
    with refusing() as reserved:
        client = await before(servers=[url_of(reserved)], form=OpenInference())
        status, _ = await ask(client, [0, 0])
        assert status in {502, 503}
        triton.models["m"] = configuration(0)
        runner = web.AppRunner(triton.application())
        await runner.setup()
        await web.SockSite(runner, reserved).start()
        statuses = Counter()
        while not statuses[200]:
            status, answer = await ask(client, [1, 1])
            statuses[status] += 1
        assert answer == [1, 2]
        await runner.cleanup()


async def test_models_that_clients_make_up(triton, before, monkeypatch):
    """So many paths are remembered and no more; the oldest is asked for anew."""
    monkeypatch.setattr(models, "_REMEMBERED", 4)
    triton.metadata = None
    client = await before(server=triton.url, form=OpenInference())
    for number in (*range(8), 7, 0):
        assert await ask(client, [1], f"m{number}") == (200, [1])
    assert triton.asked["/v2/models/m7/config"] == 1
    assert triton.asked["/v2/models/m0/config"] == 2
