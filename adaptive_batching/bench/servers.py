"""Servers in processes of their own."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psutil

_START = 60.0  # seconds
_URL = re.compile(r"http://[^/\s]+")


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that runs.

    Attributes:
        url: Where, without a path.
        pid: Its main process.
    """

    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """What it and its workers have computed so far."""
        main = psutil.Process(self.pid)
        times = [each.cpu_times() for each in (main, *main.children(recursive=True))]
        return sum(each.user + each.system for each in times)


@asynccontextmanager
async def service(name: str, loop: str) -> AsyncIterator[ServerProcess]:
    """Serve one of `bench.apps` as users do."""
    uvloop = "--uvloop" if loop == "uvloop" else "--no-uvloop"
    target = f"adaptive_batching.bench.apps:{name}"
    arguments = ["serve", target, "--port", "0", "--drain-delay", "0s", uvloop]
    async with _running("adaptive_batching", *arguments) as server:
        yield server


@asynccontextmanager
async def bare_server(loop: str) -> AsyncIterator[ServerProcess]:
    """Serve without a batcher and without a model."""
    async with _running("adaptive_batching.bench.bare_server", loop) as server:
        yield server


@asynccontextmanager
async def _running(module: str, *arguments: str) -> AsyncIterator[ServerProcess]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", module, *arguments, stdout=PIPE
    )
    try:
        yield ServerProcess(await _announced(process), process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _announced(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(_START):
        line = await process.stdout.readline()
    found = _URL.search(line.decode())
    if found is None:
        raise RuntimeError(f"expected a server to say where it is, got {line!r}")
    return found[0]
