"""What viewers of the dashboard cost the clients of a service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from yarl import URL

from adaptive_batching.bench.harness.contest import hold
from adaptive_batching.bench.harness.report import Report, Verdict
from adaptive_batching.bench.harness.servers import ServerProcess, service
from adaptive_batching.bench.harness.traffic import ROWS

_CONNECTIONS = 64
_VIEWERS = 20
_ALONE, _WATCHED = "no viewer", f"{_VIEWERS} watch"
_REQUIRED = 0.97  # times the throughput without viewers


async def measure(*, loop: str, quick: bool) -> Report:
    """As many requests as clients can send, by turns without and with viewers."""
    rounds = 1 if quick else 15
    async with service("throughput", loop, "--admin-port", "0") as server:
        contestants = {
            _ALONE: partial(_rounds, server, 0),
            _WATCHED: partial(_rounds, server, _VIEWERS),
        }
        found = await hold(contestants, rounds, quick=quick)
    kept = found.times(_WATCHED, _ALONE)
    return Report(
        f"dashboard: no-op model, {_CONNECTIONS} clients in a closed loop, {loop}",
        found.rows("dashboard", _ALONE, {"times unwatched": "requests/s"}),
        [Verdict("requests/s", kept, "at least", _REQUIRED, "times unwatched")],
    )


async def _rounds(server: ServerProcess, viewers: int) -> dict[str, float]:
    seconds = 2.0
    async with _watching(server.admin_url, viewers) as received:
        figures = await server.under_load("/no-op", ROWS, connections=_CONNECTIONS, seconds=seconds)
    return {**figures, "kB/s a viewer": sum(received) / max(1, viewers) / seconds / 1e3}


@asynccontextmanager
async def _watching(admin_url: str, viewers: int) -> AsyncIterator[list[int]]:
    """Viewers that read the stream as browsers do; yields the bytes that came so far, by viewer."""
    received = [0] * viewers
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_watch(URL(admin_url), received, n)) for n in range(viewers)]
        while not all(received):  # noqa: ASYNC110  the first bytes are all that is to be waited for
            await asyncio.sleep(0.01)
        received[:] = [0] * viewers
        yield received
        for task in tasks:
            task.cancel()


async def _watch(url: URL, received: list[int], number: int) -> None:
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        head = f"GET /debug/live/stream HTTP/1.1\r\nHost: {url.authority}\r\n\r\n"
        writer.write(head.encode())
        while chunk := await reader.read(2**16):
            received[number] += len(chunk)
    finally:
        writer.close()
