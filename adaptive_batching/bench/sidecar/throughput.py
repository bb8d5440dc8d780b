"""A model server that costs nothing, behind the sidecar and behind a proxy that does not batch."""

from functools import partial

from adaptive_batching.bench.harness.contest import hold
from adaptive_batching.bench.harness.report import Report, Verdict
from adaptive_batching.bench.harness.servers import baseline, sidecar
from adaptive_batching.bench.harness.traffic import INSTANCES

_PATH = "/v1/models/no-op:predict"
_CONNECTIONS = 64
_REQUIRED = 3.3  # times a proxy
_OURS, _PROXY, _BARE = "sidecar", "aiohttp proxy", "bare aiohttp"


async def measure(*, loop: str, quick: bool) -> Report:
    """As many requests as clients can send, through both and to a handler with nothing behind."""
    seconds, rounds = (0.3, 1) if quick else (4.0, 5)
    async with (
        baseline(loop, "model") as model,
        sidecar(model.url, loop, "--protocol", "tensorflow") as ours,
        baseline(loop, "proxy", model.url) as proxy,
    ):
        contestants = {
            name: partial(
                server.under_load, _PATH, INSTANCES, connections=_CONNECTIONS, seconds=seconds
            )
            for name, server in {_OURS: ours, _PROXY: proxy, _BARE: model}.items()
        }
        found = await hold(contestants, rounds, quick=quick)
    rows = found.rows("server", _PROXY, {"times proxy": "requests/s"})
    title = f"sidecar: no-op model server, {_CONNECTIONS} clients in a closed loop, {loop}"
    by_proxy = found.times(_OURS, _PROXY)
    return Report(
        title, rows, [Verdict("requests/s", by_proxy, "at least", _REQUIRED, "times a proxy")]
    )
