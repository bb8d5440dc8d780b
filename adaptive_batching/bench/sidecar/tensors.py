"""Large tensors in bytes, through the sidecar and through a proxy that only copies."""

import asyncio
import json
from functools import partial

from adaptive_batching.bench.harness.contest import hold
from adaptive_batching.bench.harness.report import Report, Verdict
from adaptive_batching.bench.harness.servers import ServerProcess, baseline, sidecar
from adaptive_batching.bench.harness.traffic import Traffic

_PATH = "/v2/models/no-op/infer"
_SHAPE = [1, 3, 224, 224]
_BYTES = 4 * 3 * 224 * 224  # 588 KiB: an image as most networks for images take it
_INPUT = {"name": "image", "datatype": "FP32", "shape": _SHAPE}
_DESCRIBED = json.dumps({"inputs": [{**_INPUT, "parameters": {"binary_data_size": _BYTES}}]})
_TRAFFIC = Traffic(
    bodies=[_DESCRIBED.encode() + bytes([number]) * _BYTES for number in range(4)],
    answers=[b"7]}]}"] * 4,
    headers={
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(_DESCRIBED)),
    },
)
_CLIENTS = 16
_FLOOD = 64  # clients
_HELD = 16 * 2**20  # bytes: fewer than the flood brings
_READ_AT_ONCE = 2**18  # bytes, by uvloop from a socket, before it is known whether they are held
_OF_COPYING = 0.8
_OURS, _COPY = "sidecar", "copies only"


async def measure(*, loop: str, quick: bool) -> Report:
    """How many tensors come through, and what memory they take if more come than may be held."""
    seconds, rounds = (0.3, 1) if quick else (2.0, 5)
    options = ("--protocol", "open-inference", "--max-queue-bytes", str(_HELD))
    async with (
        baseline(loop, "tensors") as model,
        sidecar(model.url, loop, *options) as ours,
        baseline(loop, "copy", model.url) as copy,
    ):
        contestants = {
            name: partial(_load, server, _CLIENTS, seconds)
            for name, server in {_OURS: ours, _COPY: copy}.items()
        }
        found = await hold(contestants, rounds, quick=quick)
        grown = await _growth(ours, seconds)
    share = found.times(_OURS, _COPY)
    return Report(
        f"sidecar: tensors of {_BYTES >> 10} KiB in bytes, {_CLIENTS} clients, {loop}",
        found.rows("server", _COPY, {"times copying": "requests/s"}),
        [
            Verdict("requests/s", share, "at least", _OF_COPYING, "times copying"),
            Verdict(f"{_FLOOD} in a flood", grown, "at most", _bound(), "MiB more memory"),
        ],
    )


def _bound() -> float:
    """What is held, and what stands in the connections' buffers (MiB)."""
    return (_HELD + _FLOOD * _READ_AT_ONCE) / 2**20


async def _growth(server: ServerProcess, seconds: float) -> float:
    """How much memory a flood takes at the most beyond what there was before it (MiB)."""
    before = most = server.memory()
    flood = asyncio.ensure_future(_load(server, _FLOOD, seconds))
    while not flood.done():
        await asyncio.wait([flood], timeout=0.01)
        most = max(most, server.memory())
    return (most - before) / 2**20


async def _load(server: ServerProcess, clients: int, seconds: float) -> dict[str, float]:
    return await server.under_load(_PATH, _TRAFFIC, connections=clients, seconds=seconds)
