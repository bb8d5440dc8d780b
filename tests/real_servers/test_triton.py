"""What the sidecar learns of a real Triton's models, and that it keeps to it."""

import asyncio
import json
import random
import re

import aiohttp
import numpy as np
import pytest

from tests.real_servers.processes import sidecar
from tests.real_servers.servers import TENSORS, TRITON, TRITON_OF_KINDS, TRITON_THAT_BATCHES

pytestmark = [pytest.mark.real_servers, pytest.mark.timeout(900)]
OPTIONS = ("--protocol=open-inference", "--max-batch-size=32")


async def infer(session, url, model, rows, datatype="FP32", **parameters):
    """Status and rows."""
    data = [each for row in rows for each in row]
    tensor = {"name": "x", "shape": [len(rows), 2], "datatype": datatype, "data": data}
    body = {"inputs": [tensor], "parameters": parameters}
    async with session.post(f"{url}/v2/models/{model}/infer", json=body) as response:
        text = await response.text()
    if response.status != 200:
        return response.status, text
    (output,) = json.loads(text)["outputs"]
    return 200, np.reshape(output["data"], output["shape"]).tolist()


@pytest.mark.parametrize("server", [TRITON, TRITON_THAT_BATCHES], ids=["alone", "batches itself"])
async def test_a_triton_that_batches_itself_is_warned_of(server, tmp_path):
    """In the log, as soon as one of its models is asked for."""
    log = tmp_path / "sidecar.log"
    values = {"INT64": 1, "FP32": 1.0, "BYTES": "a"}
    async with (
        aiohttp.ClientSession() as session,
        server.running(tmp_path) as upstream,
        sidecar(upstream, OPTIONS, log) as url,
    ):
        for model, datatype in TENSORS.items():
            status, _ = await infer(session, url, model, [[values[datatype]] * 2], datatype)
            assert status == 200
    warned = set(re.findall(r"batches '(\w+)' itself", log.read_text()))
    assert warned == (set(TENSORS) if server is TRITON_THAT_BATCHES else set())


async def executions(session, upstream, model):
    """How often each number of rows was run."""
    async with session.get(f"{upstream}/v2/models/{model}/stats") as response:
        (about,) = (await response.json())["model_stats"]
    return {each["batch_size"]: each["compute_infer"]["count"] for each in about["batch_stats"]}


async def sequence(session, url, number, steps=6):
    """The answers to the requests of a sequence, one after the other."""
    answers = []
    for step in range(steps):
        flags = {"sequence_start": step == 0, "sequence_end": step == steps - 1}
        about = {"sequence_id": number, **flags}
        answers.append(await infer(session, url, "steps", [[number, step]], **about))
    return answers


async def test_models_of_each_kind(tmp_path):
    """Batches are as large as the model says; what takes none is answered as it is directly."""
    draw = random.Random(7)
    points = [
        [[draw.randint(0, 99), draw.randint(0, 99)] for _ in range(draw.randint(1, 6))]
        for _ in range(60)
    ]
    log = tmp_path / "sidecar.log"
    async with (
        aiohttp.ClientSession() as session,
        TRITON_OF_KINDS.running(tmp_path) as upstream,
        sidecar(upstream, OPTIONS, log) as url,
    ):
        tracks = asyncio.gather(*(infer(session, url, "track", each) for each in points))
        doubled = asyncio.gather(*(infer(session, url, "few", each) for each in points))
        sums = asyncio.gather(*(sequence(session, url, number) for number in range(1, 13)))
        streamed = asyncio.gather(*(infer(session, url, "stream", each) for each in points))
        assert await tracks == [(200, np.cumsum(each, axis=0).tolist()) for each in points]
        assert await doubled == [(200, (2 * np.array(each)).tolist()) for each in points]
        for number, steps in enumerate(await sums, 1):
            assert steps == [
                (200, [[number * (step + 1), sum(range(step + 1))]]) for step in range(6)
            ]
        assert await streamed == [await infer(session, upstream, "stream", points[0])] * 60
        batches = await executions(session, upstream, "few")
        assert max(batches) == 4
        assert sum(batches.values()) < len(points)
        await no_batch_dimension(session, url)
        tracks = asyncio.gather(*(infer(session, url, "few", each) for each in points))
        assert await tracks == [(200, (2 * np.array(each)).tolist()) for each in points]
        for _ in range(1_000):  # the server may answer before it has counted
            batches = await executions(session, upstream, "few")
            if sum(batches.values()) >= len(points):
                break
            await asyncio.sleep(0.01)
        assert sum(batches.values()) == len(points)
    said = log.read_text()
    for model in ("track", "stream", "few"):  # a request of a sequence says itself that it is one
        assert said.count(f"requests for '{model}' are passed on") == 1, said


async def no_batch_dimension(session, url):
    """Load the model that could be merged with another configuration, through the sidecar."""
    async with session.get(f"{url}/v2/models/few/config") as response:
        configuration = await response.json()
    configuration["max_batch_size"] = 0
    for tensor in (*configuration["input"], *configuration["output"]):
        tensor["dims"] = [-1, 2]
    body = {"parameters": {"config": json.dumps(configuration)}}
    async with session.post(f"{url}/v2/repository/models/few/load", json=body) as response:
        assert response.status == 200, await response.text()
