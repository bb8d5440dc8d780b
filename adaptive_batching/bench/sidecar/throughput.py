"""A model server that costs nothing, behind the sidecar and behind a proxy that does not batch."""

from functools import partial
from statistics import median

from adaptive_batching.bench.contest import take_turns
from adaptive_batching.bench.report import Report, Row, Verdict, ratio
from adaptive_batching.bench.servers import baseline, sidecar

_BODY = b'{"instances": [[5.1, 3.5, 1.4, 0.2]]}'
_PATH = "/v1/models/no-op:predict"
_CONNECTIONS = 64
_OF_PROXY = 2.3
_OF_BARE = 0.75
_OURS, _PROXY, _BARE = "sidecar", "aiohttp proxy", "bare aiohttp"
_OURS_NAMED, _BARE_NAMED = f"{_OURS}, named", f"{_BARE}, named"


async def measure(*, loop: str, quick: bool) -> Report:
    """As many requests as clients can send, through both and to a handler with nothing behind.

    Once with the same headers in all requests, once with a name (X-Request-Id) in each: what came
    before is cheaper.
    """
    seconds, rounds = (1.0, 1) if quick else (4.0, 5)
    async with (
        baseline(loop, "model") as model,
        sidecar(model.url, loop, "--protocol", "tensorflow") as ours,
        baseline(loop, "proxy", model.url) as proxy,
        baseline(loop, "echo") as bare,
    ):
        servers = {_OURS: ours, _OURS_NAMED: ours, _PROXY: proxy, _BARE: bare, _BARE_NAMED: bare}
        contestants = {
            name: partial(
                server.under_load,
                _PATH,
                _BODY,
                connections=_CONNECTIONS,
                seconds=seconds,
                named=name in (_OURS_NAMED, _BARE_NAMED),
            )
            for name, server in servers.items()
        }
        await take_turns(contestants, 0 if quick else 1)  # to warm up
        taken = await take_turns(contestants, rounds)
    rates = {name: [row["requests/s"] for row in turns] for name, turns in taken.items()}
    bare_of = {_OURS_NAMED: _BARE_NAMED, _BARE_NAMED: _BARE_NAMED}
    rows: list[Row] = [
        {
            "server": name,
            **{figure: median(row[figure] for row in turns) for figure in turns[0]},
            "times proxy": ratio(rates[name], rates[_PROXY]),
            "times bare": ratio(rates[name], rates[bare_of.get(name, _BARE)]),
        }
        for name, turns in taken.items()
    ]
    title = f"sidecar: no-op model server, {_CONNECTIONS} clients in a closed loop, {loop}"
    by_proxy, by_bare = (ratio(rates[_OURS], rates[name]) for name in (_PROXY, _BARE))
    return Report(
        title,
        rows,
        [
            Verdict("requests/s", by_proxy, "at least", _OF_PROXY, "times an aiohttp proxy"),
            Verdict("requests/s", by_bare, "at least", _OF_BARE, "times bare"),
        ],
    )
