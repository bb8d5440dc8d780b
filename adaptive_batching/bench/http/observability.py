"""What it costs to be watched: metrics, a dashboard, a recording and spans, all at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from adaptive_batching.bench.harness.contest import hold
from adaptive_batching.bench.harness.report import Report, Verdict
from adaptive_batching.bench.harness.servers import ServerProcess, service, unobserved
from adaptive_batching.bench.harness.traffic import ROWS

_CONNECTIONS = 64
_REQUIRED = 0.85  # times the same service that is not observed
_SCRAPES = 1.0  # seconds from one to the next: fifteen times as often as usual
_BARE = "not observed"
_ALL = "all, 1 % traced"
_SHARES = {_ALL: "1%", "all, 100 % traced": "100%"}

_Turn = Callable[[], Coroutine[Any, Any, dict[str, float]]]


async def measure(*, loop: str, quick: bool) -> Report:
    """A model that costs nothing, as many requests as clients can send.

    Without OpenTelemetry's SDK nothing is traced, and the rows say so.
    """
    seconds, rounds = (0.3, 1) if quick else (1.5, 12)  # short: the machine's load changes
    shares = _SHARES if find_spec("opentelemetry.sdk") else {"all, but not traced": ""}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        folder = Path(stack.enter_context(TemporaryDirectory()))
        contestants: dict[str, _Turn] = {
            _BARE: partial(_loaded, await enter(unobserved(loop)), seconds),
            "service": partial(_loaded, await enter(service("throughput", loop)), seconds),
        }
        for number, (name, share) in enumerate(shares.items()):
            options = ["--admin-port", "0", "--record", str(folder / f"{number}.csv.gz")]
            server = await enter(_traced(loop, options, share))
            contestants[name] = partial(_watched, server, seconds)
        found = await hold(contestants, rounds, quick=quick)
    ratios = {"times unobserved": "requests/s", "times CPU": "CPU µs/request"}
    rows = found.rows("observed by", _BARE, ratios)
    everything = next(iter(shares))
    title = (
        f"observability: no-op model in a process, {_CONNECTIONS} clients in a closed loop, {loop};"
        " all: scraped every second, dashboard open, recorded, traced"
    )
    kept = found.times(everything, _BARE)
    verdict = Verdict(everything, kept, "at least", _REQUIRED, "times unobserved")
    return Report(title, rows, [verdict])


def _traced(
    loop: str, options: list[str], share: str
) -> AbstractAsyncContextManager[ServerProcess]:
    if not share:
        return service("throughput", loop, *options)
    return service("throughput", loop, *options, f"--trace={share}", module="traced")


async def _loaded(server: ServerProcess, seconds: float) -> dict[str, float]:
    return await server.under_load("/no-op", ROWS, connections=_CONNECTIONS, seconds=seconds)


async def _watched(server: ServerProcess, seconds: float) -> dict[str, float]:
    """The service's requests while Prometheus and a browser look."""
    async with _onlookers(server.admin_url):
        return await _loaded(server, seconds)


@asynccontextmanager
async def _onlookers(url: str) -> AsyncIterator[None]:
    async with aiohttp.ClientSession(url) as session:
        looking = [asyncio.create_task(each(session)) for each in (_scrape, _view)]
        try:
            yield
        finally:
            for task in looking:
                task.cancel()
            ends = await asyncio.gather(*looking, return_exceptions=True)
    if unseen := [end for end in ends if isinstance(end, Exception)]:
        raise ExceptionGroup("what was to be watched was not there", unseen)


async def _scrape(session: aiohttp.ClientSession) -> None:
    while True:
        async with session.get("/metrics", raise_for_status=True) as response:
            await response.read()
        await asyncio.sleep(_SCRAPES)


async def _view(session: aiohttp.ClientSession) -> None:
    async with session.get("/debug/live/stream", raise_for_status=True) as response:
        async for _ in response.content.iter_any():
            pass
