"""Several processes that speak HTTP before one that forms the batches: what they cost and gain."""

from contextlib import AsyncExitStack
from functools import partial
from statistics import median

from adaptive_batching.bench.contest import take_turns
from adaptive_batching.bench.report import Report, Row, Verdict, ratio
from adaptive_batching.bench.servers import ServerProcess, service

_BODY = b"[5.1, 3.5, 1.4, 0.2]"
_CONNECTIONS = 64
_COUNTS = (1, 2, 4)
_SHARE = "service µs/request"
_REQUIRED = 0.75  # of what a service that speaks HTTP itself spends; else nothing could be gained


async def measure(*, loop: str, quick: bool) -> Report:
    """A model that costs nothing behind one, two and four marshals.

    The process that forms the batches is the one there can't be more of. What it spends on a
    request says how many a second are possible on a machine with cores enough for the others.
    """
    seconds, rounds = (1.0, 1) if quick else (3.0, 5)
    async with AsyncExitStack() as stack:
        contestants = {}
        for count in _COUNTS:
            options = [f"--marshals={count}", "--admin-port=0"]
            server = await stack.enter_async_context(service("throughput", loop, *options))
            contestants[str(count)] = partial(_under_load, server, seconds)
        await take_turns(contestants, 0 if quick else 1)  # to warm up
        taken = await take_turns(contestants, rounds)
    rates = {count: [row["requests/s"] for row in turns] for count, turns in taken.items()}
    spent = {count: [row[_SHARE] for row in turns] for count, turns in taken.items()}
    rows: list[Row] = [
        {
            "marshals": count,
            **{figure: median(row[figure] for row in turns) for figure in turns[0]},
            "times one": ratio(rates[count], rates["1"]),
        }
        for count, turns in taken.items()
    ]
    title = f"marshals: no-op model in a process, {_CONNECTIONS} clients in a closed loop, {loop}"
    share = ratio(spent["2"], spent["1"])
    verdict = Verdict("the service's own CPU for a request", share, "at most", _REQUIRED, "of one")
    return Report(title, rows, [verdict])


async def _under_load(server: ServerProcess, seconds: float) -> dict[str, float]:
    before = server.own_cpu_seconds()
    row = await server.under_load("/no-op", _BODY, connections=_CONNECTIONS, seconds=seconds)
    spent = server.own_cpu_seconds() - before
    answered = row["requests/s"] * seconds
    return row | {_SHARE: spent / max(1.0, answered) * 1e6}
