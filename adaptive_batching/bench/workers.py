"""What a round trip to a worker process costs, beside a bare socket pair with a process behind."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from multiprocessing import get_context
from statistics import median, quantiles
from time import perf_counter
from typing import Any, cast

from adaptive_batching.bench.contest import take_turns
from adaptive_batching.bench.loops import loop_name
from adaptive_batching.bench.report import Report, Row, Verdict, ratio
from adaptive_batching.workers.placement import Processes, make_workers

_BATCH = [bytes(64)] * 16  # 1 kB
_REQUIRED = 2.0  # times bare
_ECHO = """\
import os, socket, sys
os.sched_setaffinity(0, {int(sys.argv[2])})
stream = socket.socket(fileno=int(sys.argv[1]))
while data := stream.recv(65536):
    stream.sendall(data)
"""

Trip = Callable[[], Awaitable[Any]]


def echo(items: list[bytes]) -> list[bytes]:
    """A model that costs nothing."""
    return items


async def measure(*, quick: bool) -> Report:
    """Compare the round trips of one batch of 1 kB to a process on a core of its own."""
    trips, rounds = (50, 2) if quick else (500, 9)
    core = max(os.sched_getaffinity(0))
    async with _pool(core) as ours, _bare(core) as bare, _executor(core) as executor:
        ways = {"WorkerPool": ours, "bare socket pair": bare, "ProcessPoolExecutor": executor}
        contestants = {name: partial(_latencies, way, trips) for name, way in ways.items()}
        await take_turns(contestants, 1)  # to warm up
        taken = await take_turns(contestants, rounds)
    medians = {name: [median(each) for each in turns] for name, turns in taken.items()}
    times = {name: ratio(each, medians["bare socket pair"]) for name, each in medians.items()}
    rows: list[Row] = [
        {
            "way": name,
            "p50 µs": median(medians[name]) * 1e6,
            "p99 µs": median(quantiles(each, n=100)[98] for each in turns) * 1e6,
            "times bare (p50)": times[name],
        }
        for name, turns in taken.items()
    ]
    verdict = Verdict("p50", times["WorkerPool"], "at most", _REQUIRED, "times bare")
    title = f"workers: 16 items of 64 bytes to a process on core {core} and back, {loop_name()}"
    return Report(title, rows, [verdict])


async def _latencies(trip: Trip, trips: int) -> list[float]:
    latencies = []
    for _ in range(trips):
        begin = perf_counter()
        await trip()
        latencies.append(perf_counter() - begin)
    return latencies


@asynccontextmanager
async def _pool(core: int) -> AsyncIterator[Trip]:
    workers = make_workers(echo, Processes(1, cpus=[core]))
    await workers.start(lambda: None)
    try:
        yield lambda: workers.run(_BATCH, 0)
    finally:
        await workers.aclose()


@asynccontextmanager
async def _bare(core: int) -> AsyncIterator[Trip]:
    """As many bytes there and back, with nothing to find out about them."""
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    with theirs:
        arguments = ("-c", _ECHO, str(theirs.fileno()), str(core))
        child = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, pass_fds=[theirs.fileno()]
        )
    _, bare = await loop.create_unix_connection(_Bare, sock=ours)
    payload = b"".join(_BATCH)
    try:
        yield lambda: bare.ask(payload)
    finally:
        bare.close()
        await child.wait()


class _Bare(asyncio.Protocol):
    def ask(self, payload: bytes) -> asyncio.Future[None]:
        self._missing = len(payload)
        self._answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport.write(payload)
        return self._answer

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._missing -= len(data)
        if not self._missing:
            self._answer.set_result(None)


@asynccontextmanager
async def _executor(core: int) -> AsyncIterator[Trip]:
    loop = asyncio.get_running_loop()
    context = get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=_pin, initargs=(core,)) as executor:
        yield lambda: loop.run_in_executor(executor, echo, _BATCH)


def _pin(core: int) -> None:
    os.sched_setaffinity(0, {core})
