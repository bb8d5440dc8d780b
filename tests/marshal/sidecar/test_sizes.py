"""Batches that the sidecar fills up, before real servers whose model takes a few sizes only."""

import asyncio
import json
from contextlib import asynccontextmanager

import numpy as np
import pytest
from aiohttp import web
from yarl import URL

from adaptive_batching.wire.formats import make_format
from tests.cli.test_top import top
from tests.marshal.admin.test_admin import ask
from tests.workers.conditions import until

SIZES = (1, 4, 8)
INFER = "/v2/models/double/infer"
PREDICT = "/v1/models/double:predict"
LENGTH = "Inference-Header-Content-Length"
BAD = 13


class Compiled:
    """Doubles rows, as many as one of its sizes says; answers 400 to others, and to a bad row.

    Attributes:
        batches: The first numbers of the rows of each batch that it was sent.
        results: Makes the list of results of the rows.
        most: What its configuration says of a batch; None if it has none.
    """

    def __init__(self):
        self.batches = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.sizes = SIZES
        self.results = lambda rows: [[2 * number for number in row] for row in rows]
        self.most = None

    def application(self):
        application = web.Application()
        application.router.add_post(INFER, self.infer)
        application.router.add_post(PREDICT, self.predict)
        application.router.add_get("/v2/models/double/config", self.config)
        return application

    async def run(self, rows):
        self.batches.append([row[0] for row in rows])
        await self.gate.wait()
        if len(rows) not in self.sizes or any(BAD in row for row in rows):
            raise web.HTTPBadRequest(text="{}", content_type="application/json")
        return self.results(rows)

    async def predict(self, request):
        asked = json.loads(await request.read())
        return web.json_response({"predictions": await self.run(asked["instances"])})

    async def infer(self, request):
        body = await request.read()
        end = int(request.headers.get(LENGTH, len(body)))
        asked = json.loads(body[:end])
        (tensor,) = asked["inputs"]
        elements = tensor.get("data", np.frombuffer(body[end:], np.float32))
        doubled = await self.run(np.reshape(elements, tensor["shape"]).tolist())
        output = {"name": "y", "shape": np.shape(doubled), "datatype": tensor["datatype"]}
        if "data" in tensor:
            output["data"] = np.ravel(doubled).tolist()
            return web.json_response({"id": asked.get("id", "own"), "outputs": [output]})
        data = np.array(doubled, np.float32).tobytes()
        output["parameters"] = {"binary_data_size": len(data)}
        text = json.dumps({"outputs": [output]}).encode()
        return web.Response(body=text + data, headers={LENGTH: str(len(text))})

    async def config(self, request):
        if self.most is None:
            raise web.HTTPNotFound
        return web.json_response({"max_batch_size": self.most})


@asynccontextmanager
async def served(compiled):
    runner = web.AppRunner(compiled.application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield URL(f"http://127.0.0.1:{site.port}")
    compiled.gate.set()
    await runner.cleanup()


@pytest.fixture
async def start(before):
    """Start a compiled model and a sidecar that fills its batches up; returns a client and it."""
    compiled = Compiled()
    async with served(compiled) as url:

        async def start(protocol="tensorflow", *, sizes=SIZES, **options):
            more = {"sizes": sizes, "pads": True, **options}
            form = make_format(protocol)
            client = await before(server=url, form=form, max_batch_size=max(sizes), more=more)
            return client, compiled

        yield start


async def in_rows(client, *numbers):
    """Status, rows and headers of the answer to rows of one number."""
    status, answer, headers = await client.predict(*[[each] for each in numbers], model="double")
    return status, answer.get("predictions"), headers


async def in_json(client, *numbers):
    tensor = {"name": "x", "shape": [len(numbers), 1], "datatype": "INT64", "data": numbers}
    asked = {"id": "mine", "inputs": [tensor]}
    async with client.session.post(f"{client.url}{INFER}", json=asked) as response:
        answer = await response.json()
        assert answer["id"] == "mine"
        (output,) = answer["outputs"]
        assert output["shape"] == [len(numbers), 1]
        return response.status, [[each] for each in output["data"]], response.headers


async def in_bytes(client, *numbers):
    data = np.array(numbers, np.float32).tobytes()
    said = {"binary_data_size": len(data)}
    tensor = {"name": "x", "shape": [len(numbers), 1], "datatype": "FP32", "parameters": said}
    text = json.dumps({"inputs": [tensor]}).encode()
    async with client.session.post(
        f"{client.url}{INFER}", data=text + data, headers={LENGTH: str(len(text))}
    ) as response:
        told = await response.read()
        rows = np.frombuffer(told[int(response.headers[LENGTH]) :], np.float32)
        return response.status, [[each] for each in rows.tolist()], response.headers


def doubled(*numbers):
    return [[2 * number] for number in numbers]


@pytest.mark.parametrize(
    ("protocol", "asking"),
    [("tensorflow", in_rows), ("open-inference", in_json), ("open-inference", in_bytes)],
)
async def test_batches_are_filled_up_with_their_last_row(start, protocol, asking):
    """A request that is alone in its batch too; each client gets its own rows and no others."""
    client, compiled = await start(protocol)
    status, rows, headers = await asking(client, 1, 2)
    assert (status, rows, headers["X-Batch-Size"]) == (200, doubled(1, 2), "2")
    assert compiled.batches.pop() == [1, 2, 2, 2]
    asked = [(3,), (4, 5), (6,), (7, 8)]
    answers = await client.together(compiled, *(asking(client, *each) for each in asked), queued=5)
    assert [rows for _, rows, _ in answers] == [doubled(*each) for each in asked]
    assert compiled.batches == [[3], [4, 5, 6, 7, 8, 8, 8, 8]]
    assert [headers["X-Batch-Size"] for *_, headers in answers] == ["1", "5", "5", "5"]


async def test_the_pieces_of_a_large_request_are_filled_up(start):
    """Ten rows leave as eight and two, which run as four."""
    client, compiled = await start()
    status, rows, _ = await in_rows(client, *range(20, 30))
    assert (status, rows) == (200, doubled(*range(20, 30)))
    assert sorted(compiled.batches) == [[*range(20, 28)], [28, 29, 29, 29]]


async def test_parts_of_a_failed_batch_are_filled_up(start):
    """The bad row is found; no batch on the way there has a size that the model doesn't take."""
    client, compiled = await start()
    asked = [(1,), (2,), (3, 4), (BAD, 5), (6,)]
    answers = await client.together(compiled, *(in_rows(client, *each) for each in asked), queued=6)
    good = [doubled(*each) for each in asked if BAD not in each]
    assert [rows for status, rows, _ in answers if status == 200] == good
    assert [status for status, *_ in answers] == [200, 200, 200, 400, 200]
    assert {len(batch) for batch in compiled.batches} <= {*SIZES}


async def test_answers_that_can_not_be_cut_are_those_to_requests_as_they_came(start):
    """Of a model that sums up: a request that was filled up is sent again, the next one is not."""
    client, compiled = await start()
    compiled.sizes = range(1, 9)
    compiled.results = lambda rows: [[sum(row[0] for row in rows)]]
    for _ in range(2):
        assert (await in_rows(client, 1, 2))[:2] == (200, [[3]])
    assert compiled.batches == [[1, 2, 2, 2], [1, 2], [1, 2]]


async def test_a_batch_whose_answer_can_not_be_cut_is_sent_in_requests_as_they_came(start):
    """Each client gets what the model says of its own rows, and nothing of what filled them up."""
    client, compiled = await start()
    compiled.sizes = range(1, 9)
    compiled.results = lambda rows: [[sum(row[0] for row in rows)]]
    asked = [(1,), (2, 3), (4, 5)]
    answers = await client.together(compiled, *(in_rows(client, *each) for each in asked), queued=4)
    assert [rows for _, rows, _ in answers] == [[[1]], [[5]], [[9]]]
    assert compiled.batches[:2] == [[1], [2, 3, 4, 5]]
    assert sorted(compiled.batches[2:]) == [[2, 3], [4, 5]]


async def test_a_batch_is_not_filled_up_beyond_what_the_model_says(start):
    """Its configuration allows six rows, so that two are not filled up to eight."""
    client, compiled = await start("open-inference", sizes=(1, 8))
    compiled.most, compiled.sizes = 6, (1, 2)
    assert (await in_json(client, 1, 2))[:2] == (200, doubled(1, 2))
    assert compiled.batches == [[1, 2]]


async def test_samples_that_are_sent_alone_are_filled_up_as_well(start):
    """`verify` compares answers of the sizes that the model takes."""
    client, compiled = await start(verify=1.0)
    asked = [(1,), (2, 3), (4,)]
    await client.together(compiled, *(in_rows(client, *each) for each in asked), queued=3)
    upstreams = next(iter(client.running.runtimes)).upstreams
    await until(lambda: upstreams.verified.same)
    assert compiled.batches[:2] == [[1], [2, 3, 4, 4]]
    assert len(compiled.batches[2]) in SIZES


async def test_operators_see_what_is_filled_up(start):
    """Of a batch of five, that eight were run; items that are counted are those of clients."""
    client, _ = await start()
    await in_rows(client, *range(5))
    client.running.broadcast.look()
    [batch] = (await ask(client, "GET", "/debug/batches")).json["models"]
    assert (batch["items"], batch["padded_items"]) == (5, 8)
    _, output, _ = await top(client.running.admin_url, "--once")
    assert "37.5 % of the work is padding" in output


async def test_the_rest_of_the_sidecar_sends_batches_as_they_are(start):
    """Sizes alone are what a server does by itself."""
    client, compiled = await start(pads=False)
    compiled.sizes = range(1, 9)
    assert (await in_rows(client, 1, 2))[:2] == (200, doubled(1, 2))
    assert compiled.batches == [[1, 2]]
