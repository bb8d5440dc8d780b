"""As many requests as clients can send, to a model that costs nothing."""

from functools import partial
from statistics import median

from adaptive_batching.bench.contest import take_turns
from adaptive_batching.bench.report import Report, Row, Verdict, ratio
from adaptive_batching.bench.servers import baseline, service

_BODY = b"[5.1, 3.5, 1.4, 0.2]"
_CONNECTIONS = 64
_REQUIRED = 0.7  # times bare
_OURS, _BARE = "service", "bare aiohttp"
_OURS_NAMED, _BARE_NAMED = f"{_OURS}, named", f"{_BARE}, named"


async def measure(*, loop: str, quick: bool) -> Report:
    """A model that costs nothing, as many requests as clients can send.

    Once with the same headers in all requests, once with a name (X-Request-Id) in each: what came
    before is cheaper.
    """
    seconds, rounds = (1.0, 1) if quick else (5.0, 5)
    async with service("throughput", loop) as ours, baseline(loop, "echo") as bare:
        asked = {
            _OURS: (ours, "/no-op", False),
            _OURS_NAMED: (ours, "/no-op", True),
            _BARE: (bare, "/", False),
            _BARE_NAMED: (bare, "/", True),
        }
        contestants = {
            name: partial(
                server.under_load,
                path,
                _BODY,
                connections=_CONNECTIONS,
                seconds=seconds,
                named=named,
            )
            for name, (server, path, named) in asked.items()
        }
        await take_turns(contestants, 0 if quick else 1)  # to warm up
        taken = await take_turns(contestants, rounds)
    rates = {name: [row["requests/s"] for row in turns] for name, turns in taken.items()}
    times = ratio(rates[_OURS], rates[_BARE])
    rows: list[Row] = [
        {
            "server": name,
            **{figure: median(row[figure] for row in turns) for figure in turns[0]},
            "times bare": ratio(rates[name], rates[_BARE_NAMED if asked[name][2] else _BARE]),
        }
        for name, turns in taken.items()
    ]
    title = f"throughput: no-op model in a process, {_CONNECTIONS} clients in a closed loop, {loop}"
    return Report(
        title,
        rows,
        [Verdict("requests/s", times, "at least", _REQUIRED, "times bare")],
    )
