"""A model server that costs nothing, behind the sidecar and behind a proxy that does not batch."""

from functools import partial
from statistics import median

from adaptive_batching.bench.contest import take_turns
from adaptive_batching.bench.report import Report, Row, Verdict, ratio
from adaptive_batching.bench.servers import baseline, sidecar
from adaptive_batching.bench.traffic import INSTANCES

_PATH = "/v1/models/no-op:predict"
_CONNECTIONS = 64
_REQUIRED = 3.3  # times a proxy
_OURS, _PROXY, _BARE = "sidecar", "aiohttp proxy", "bare aiohttp"


async def measure(*, loop: str, quick: bool) -> Report:
    """As many requests as clients can send, through both and to a handler with nothing behind."""
    seconds, rounds = (1.0, 1) if quick else (4.0, 5)
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
        await take_turns(contestants, 0 if quick else 1)  # to warm up
        taken = await take_turns(contestants, rounds)
    rates = {name: [row["requests/s"] for row in turns] for name, turns in taken.items()}
    rows: list[Row] = [
        {
            "server": name,
            **{figure: median(row[figure] for row in turns) for figure in turns[0]},
            "times proxy": ratio(rates[name], rates[_PROXY]),
        }
        for name, turns in taken.items()
    ]
    title = f"sidecar: no-op model server, {_CONNECTIONS} clients in a closed loop, {loop}"
    by_proxy = ratio(rates[_OURS], rates[_PROXY])
    return Report(
        title, rows, [Verdict("requests/s", by_proxy, "at least", _REQUIRED, "times a proxy")]
    )
