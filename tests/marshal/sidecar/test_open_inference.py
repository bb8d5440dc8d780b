"""Tensors through a sidecar: in JSON and in bytes, each client gets its own rows."""

import asyncio
import json
from math import prod

import numpy as np
import pytest
from aiohttp import web
from yarl import URL

from adaptive_batching.wire.open_inference import OpenInference
from tests.workers.conditions import until

INFER = "/v2/models/double/infer"
LENGTH = "Inference-Header-Content-Length"


class Doubler:
    """A server that doubles a tensor, and answers in the way in which it was asked."""

    def __init__(self):
        self.sizes = []
        self.gate = asyncio.Event()

    async def infer(self, request):
        body = await request.read()
        end = int(request.headers.get(LENGTH, len(body)))
        asked = json.loads(body[:end])
        (tensor,) = asked["inputs"]
        self.sizes.append(tensor["shape"][0])
        await self.gate.wait()
        output = {"name": "y", "shape": tensor["shape"], "datatype": tensor["datatype"]}
        if "data" in tensor:
            output["data"] = [2 * number for number in np.ravel(tensor["data"]).tolist()]
            own = {"id": asked["id"]} if "id" in asked else {}
            return web.json_response({"model_name": "double", **own, "outputs": [output]})
        doubled = (2 * np.frombuffer(body[end:], np.float32)).tobytes()
        output["parameters"] = {"binary_data_size": len(doubled)}
        text = json.dumps({"model_name": "double", "outputs": [output]}).encode()
        return web.Response(body=text + doubled, headers={LENGTH: str(len(text))})


@pytest.fixture
async def doubler():
    server = Doubler()
    application = web.Application()
    application.router.add_post(INFER, server.infer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = URL(f"http://127.0.0.1:{site.port}")
    yield server
    server.gate.set()
    await runner.cleanup()


async def in_bytes(client, numbers, *row, **beside):
    data = np.array(numbers, np.float32).tobytes()
    shape = [len(numbers) // prod(row), *row]
    tensor = {"name": "x", "shape": shape, "datatype": "FP32"}
    described = {**tensor, "parameters": {"binary_data_size": len(data)}}
    asked = json.dumps({**beside, "inputs": [described]}).encode()
    async with client.session.post(
        f"{client.url}{INFER}", data=asked + data, headers={LENGTH: str(len(asked))}
    ) as response:
        told = await response.read()
        end = int(response.headers[LENGTH])
        return np.frombuffer(told[end:], np.float32).tolist()


async def test_json_and_bytes_before_one_server(doubler, before):
    """They don't mix, but those that are alike go together, whatever their ids."""
    client = await before(server=doubler.url, form=OpenInference())

    async def in_json(number):
        tensor = {"name": "x", "shape": [1, 2], "datatype": "INT64", "data": [number, 2**62 - 1]}
        asked = {"id": f"j{number}", "inputs": [tensor]}
        async with client.session.post(f"{client.url}{INFER}", json=asked) as response:
            told = await response.json()
            return told["id"], told["outputs"][0]["data"]

    tasks = [asyncio.ensure_future(in_json(0))]
    await until(lambda: doubler.sizes)
    tasks += [asyncio.ensure_future(in_json(number)) for number in (1, 2)]
    tasks += [asyncio.ensure_future(in_bytes(client, numbers)) for numbers in ([1, 2], [3])]
    await until(lambda: client.running.dispatchers["models"].stats().queued == 5)
    doubler.gate.set()
    answers = await asyncio.gather(*tasks)
    assert answers == [
        *((f"j{number}", [2 * number, 2**63 - 2]) for number in range(3)),
        [2, 4],
        [6],
    ]
    assert sorted(doubler.sizes) == [1, 2, 3]


async def test_large_tensors_are_sent_on_in_parts(doubler, before):
    """What is more than is written at once arrives whole, and each client's rows are its own."""
    client = await before(server=doubler.url, form=OpenInference())
    sent = [range(first, first + 50_000) for first in (0, 1_000_000, 2_000_000, 3_000_000)]
    tasks = [asyncio.ensure_future(in_bytes(client, sent[0], 50_000))]
    await until(lambda: doubler.sizes)
    tasks += [asyncio.ensure_future(in_bytes(client, each, 50_000)) for each in sent[1:]]
    await until(lambda: client.running.dispatchers["models"].stats().queued == 3)
    doubler.gate.set()
    assert await asyncio.gather(*tasks) == [[2 * number for number in each] for each in sent]
    assert doubler.sizes == [1, 3]


@pytest.mark.parametrize("beside", [{}, {"parameters": {"sequence_id": 7}}])
async def test_a_large_tensor_that_is_alone_arrives_as_it_was_sent(doubler, before, beside):
    """Whether nobody came with it, or nobody could have."""
    client = await before(server=doubler.url, form=OpenInference())
    doubler.gate.set()
    assert await in_bytes(client, range(200_000), 100_000, **beside) == [*range(0, 400_000, 2)]
    assert doubler.sizes == [2]
