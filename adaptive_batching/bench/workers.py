"""What a round trip to a worker process costs, beside a bare socket pair with a process behind."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from multiprocessing import get_context
from statistics import median, quantiles
from time import perf_counter
from typing import Any, cast

import numpy as np

from adaptive_batching.bench.harness.contest import hold
from adaptive_batching.bench.harness.loops import loop_name
from adaptive_batching.bench.harness.report import Report, Row, Verdict
from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.factory import make_workers

_OURS = "WorkerPool"
_FRAMES = "WorkerPool without shared memory"
_BARE = "bare socket pair"
_REQUIRED = 1.6  # times bare, for small batches
_REQUIRED_OF_ARRAYS = 3.0  # times as fast as bare
_TURN = 0.25  # seconds, after which a slow one makes way
# What anybody would write first: streams, and an answer once the batch is there.
_ANSWER = """\
import os, socket, sys
os.sched_setaffinity(0, {int(sys.argv[2])})
stream = socket.socket(fileno=int(sys.argv[1]))
while header := stream.recv(4, socket.MSG_WAITALL):
    stream.sendall(header + stream.recv(int.from_bytes(header), socket.MSG_WAITALL))
"""


@dataclass(frozen=True)
class Load:
    """One batch, and how often it goes there and back in a turn.

    Attributes:
        what: What the batch holds.
        batch: Its items.
        trips: How often at most.
    """

    what: str
    batch: list[Any]
    trips: int

    @cached_property
    def payload(self) -> bytes:
        """As many bytes, with nothing to find out about them."""
        return b"".join(map(bytes, self.batch))


_SMALL = Load("1 kB", [bytes(64)] * 16, trips=500)
_ARRAYS = (
    Load("600 KiB", [np.ones(600 * 2**10, np.uint8)], trips=100),
    Load("10 MiB", [np.ones(10 * 2**20, np.uint8)], trips=30),
)

Trip = Callable[[Load], Awaitable[Any]]


def echo(items: list[Any]) -> list[Any]:
    """A model that costs nothing."""
    return items


async def measure(*, quick: bool) -> Report:
    """Compare the round trips of small and large batches to a process on a core of its own."""
    core = max(os.sched_getaffinity(0))
    placement = Processes(1, cpus=[core])
    rows: list[Row] = []
    async with AsyncExitStack() as stack:
        entered = stack.enter_async_context
        ways = {
            _OURS: await entered(_pool(placement)),
            _FRAMES: await entered(_pool(replace(placement, shared_memory=0))),
            _BARE: await entered(_bare(core)),
            "ProcessPoolExecutor": await entered(_executor(core)),
        }
        for load in (_SMALL, *_ARRAYS):
            rows += await _compare(load, ways, quick=quick)
    times = {row["batch"]: cast("float", row["times bare"]) for row in rows if row["way"] == _OURS}
    small = Verdict(_SMALL.what, times[_SMALL.what], "at most", _REQUIRED, "times bare")
    arrays = [
        Verdict(what, 1 / times[what], "at least", _REQUIRED_OF_ARRAYS, "times as fast as bare")
        for what in (load.what for load in _ARRAYS)
    ]
    title = (
        f"workers: 16 items of 64 bytes, or one array, to a process on core {core} and back, "
        f"{loop_name()}"
    )
    return Report(title, rows, [small, *arrays])


async def _compare(load: Load, ways: Mapping[str, Trip], *, quick: bool) -> list[Row]:
    trips, rounds = (load.trips // 10, 2) if quick else (load.trips, 9)
    contestants = {name: partial(_latencies, way, load, trips) for name, way in ways.items()}
    found = await hold(contestants, rounds, quick=False)
    rows = found.rows("way", _BARE, {"times bare": "p50 µs"})
    return [{"batch": load.what, **row} for row in rows]


async def _latencies(trip: Trip, load: Load, trips: int) -> dict[str, float]:
    latencies: list[float] = []
    over = perf_counter() + _TURN
    while len(latencies) < 2 or (len(latencies) < trips and perf_counter() < over):
        begin = perf_counter()
        await trip(load)
        latencies.append(perf_counter() - begin)
    p99 = quantiles(latencies, n=100, method="inclusive")[98]
    return {"p50 µs": median(latencies) * 1e6, "p99 µs": p99 * 1e6}


@asynccontextmanager
async def _pool(placement: Processes) -> AsyncIterator[Trip]:
    workers = make_workers(echo, placement)
    await workers.start(lambda: None)
    try:
        yield lambda load: workers.run(load.batch, 0)
    finally:
        await workers.aclose()


@asynccontextmanager
async def _bare(core: int) -> AsyncIterator[Trip]:
    """As many bytes there and back, with nothing to find out about them but how many they are."""
    ours, theirs = socket.socketpair()
    with theirs:
        arguments = ("-c", _ANSWER, str(theirs.fileno()), str(core))
        child = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, pass_fds=[theirs.fileno()]
        )
    reader, writer = await asyncio.open_unix_connection(sock=ours)

    async def trip(load: Load) -> None:
        writer.write(len(load.payload).to_bytes(4) + load.payload)
        await reader.readexactly(4 + len(load.payload))

    try:
        yield trip
    finally:
        writer.transport.abort()
        await child.wait()


@asynccontextmanager
async def _executor(core: int) -> AsyncIterator[Trip]:
    loop = asyncio.get_running_loop()
    context = get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=_pin, initargs=(core,)) as executor:
        yield lambda load: loop.run_in_executor(executor, echo, load.batch)


def _pin(core: int) -> None:
    os.sched_setaffinity(0, {core})
