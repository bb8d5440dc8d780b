"""What the sidecar learns of a real Triton before the first request."""

import re

import aiohttp
import pytest

from tests.real_servers.processes import sidecar
from tests.real_servers.servers import TENSORS, TRITON, TRITON_THAT_BATCHES

pytestmark = [pytest.mark.real_servers, pytest.mark.timeout(900)]
_LINE = re.compile(r"adaptive_batching_model_(?:fixed|per_item)_seconds{.*} (.*)")
PARTS = ("compute_input", "compute_infer", "compute_output")
SIZES = (1, 2, 4, 8, 16, 32)


async def post(session, url, size):
    tensor = {"name": "x", "shape": [size, 2], "datatype": "FP32", "data": [1.0, 2.0] * size}
    async with session.post(f"{url}/v2/models/real/infer", json={"inputs": [tensor]}) as response:
        assert response.status == 200


async def line(session, port):
    """The line that batches follow, as far as it is known: seconds, and seconds for each item."""
    async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
        text = await response.text()
    found = re.findall(
        r"^adaptive_batching_model_(?:fixed|per_item)_seconds\S* (\S+)$", text, re.MULTILINE
    )
    return [float(each) for each in found]


@pytest.mark.parametrize("server", [TRITON, TRITON_THAT_BATCHES], ids=["alone", "batches itself"])
async def test_triton_says_what_it_knows(server, tmp_path, unused_tcp_port):
    """How long its batches took, and whether it batches as well, which is warned of."""
    log = tmp_path / "sidecar.log"
    options = ("--protocol=open-inference", f"--admin-port={unused_tcp_port}")
    async with server.running(tmp_path) as upstream, aiohttp.ClientSession() as session:
        for size in SIZES * 3:
            await post(session, upstream, size)
        async with sidecar(upstream, options, log):
            fixed, per_item = await line(session, unused_tcp_port)
        async with session.get(f"{upstream}/v2/models/real/stats") as response:
            (model,) = (await response.json())["model_stats"]
    inside = sum(model["inference_stats"][part]["ns"] for part in PARTS) * 1e-9
    assert 0 < fixed + per_item < inside / model["execution_count"] * 4
    warned = set(re.findall(r"batches '(\w+)' itself", log.read_text()))
    assert warned == (set(TENSORS) if server is TRITON_THAT_BATCHES else set())
