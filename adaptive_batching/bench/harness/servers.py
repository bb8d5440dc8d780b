"""Servers in processes of their own."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from adaptive_batching.bench.harness.traffic import Traffic
from adaptive_batching.load import ClosedLoop, run_closed_loop

_PROGRAMS = "adaptive_batching.bench.programs"
_START = 60.0  # seconds
_URL = re.compile(r"(http://[^/\s]+)")
_ADMIN_URL = re.compile(r"(http://[^/\s]+)/ .*/metrics")


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that runs.

    Attributes:
        url: Where, without a path.
        pid: Its main process.
        admin_url: Where operators look; empty if nowhere.
    """

    url: str
    pid: int
    admin_url: str = ""

    def cpu_seconds(self) -> float:
        """What it and its workers have computed so far."""
        main = psutil.Process(self.pid)
        times = [each.cpu_times() for each in (main, *main.children(recursive=True))]
        return sum(each.user + each.system for each in times)

    def memory(self) -> int:
        """Bytes that its main process holds (RSS)."""
        return int(psutil.Process(self.pid).memory_info().rss)

    async def under_load(
        self,
        path: str,
        traffic: Traffic,
        *,
        connections: int,
        seconds: float,
        repeated: bool = False,
    ) -> dict[str, float]:
        """What a closed loop gets out of it, and what it spends on that."""
        before = self.cpu_seconds()
        plan = ClosedLoop(
            url=self.url + path,
            bodies=traffic.bodies,
            answers=traffic.answers,
            headers=traffic.headers,
            repeated=repeated,
            connections=connections,
            duration=seconds,
        )
        result = await run_closed_loop(plan)
        spent = self.cpu_seconds() - before
        return {
            "requests/s": result.rate,
            "p50 ms": result.p50 * 1e3,
            "p99 ms": result.p99 * 1e3,
            "failed": result.failed,
            "CPU µs/request": spent / max(1, result.requests) * 1e6,
            "generator busy": result.busy,
        }


@asynccontextmanager
async def service(
    name: str,
    loop: str,
    *options: str,
    module: str = "apps",
    walk: Path | None = None,
) -> AsyncIterator[ServerProcess]:
    """Serve one of `programs.apps`, or of another module of ours, as users do.

    With `walk`, `programs.walked` writes there what requests cross.
    """
    target = f"{_PROGRAMS}.{module}:{name}"
    arguments = ["serve", target, *options, *_as_users_do(loop)]
    async with _running(*_ours(walk), *arguments) as server:
        yield server


@asynccontextmanager
async def unobserved(loop: str) -> AsyncIterator[ServerProcess]:
    """Serve `programs.apps:throughput` without observers."""
    async with _running(f"{_PROGRAMS}.unobserved", loop) as server:
        yield server


@asynccontextmanager
async def sidecar(
    upstream: str, loop: str, *options: str, walk: Path | None = None
) -> AsyncIterator[ServerProcess]:
    """Put a sidecar before a server, as users do; `walk` as for a service."""
    arguments = ["sidecar", "--upstream", upstream, *options, *_as_users_do(loop)]
    async with _running(*_ours(walk), *arguments) as server:
        yield server


@asynccontextmanager
async def baseline(loop: str, kind: str, *upstream: str) -> AsyncIterator[ServerProcess]:
    """Run one of `programs.baselines`; `proxy` and `copy` stand before an upstream."""
    async with _running(f"{_PROGRAMS}.baselines", loop, kind, *upstream) as server:
        yield server


@asynccontextmanager
async def one_at_a_time() -> AsyncIterator[ServerProcess]:
    """Run the demo's model in a server without batches."""
    async with _running("adaptive_batching.demo.one_at_a_time") as server:
        yield server


def _ours(walk: Path | None) -> tuple[str, ...]:
    return ("adaptive_batching",) if walk is None else (f"{_PROGRAMS}.walked", str(walk))


def _as_users_do(loop: str) -> list[str]:
    uvloop = "--uvloop" if loop == "uvloop" else "--no-uvloop"
    return ["--port", "0", "--drain-delay", "0s", uvloop]


@asynccontextmanager
async def _running(module: str, *arguments: str) -> AsyncIterator[ServerProcess]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", module, *arguments, stdout=PIPE
    )
    try:
        url = await _announced(process, _URL)
        with_admin = "--admin-port" in arguments
        admin_url = await _announced(process, _ADMIN_URL) if with_admin else ""
        yield ServerProcess(url, process.pid, admin_url)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _announced(process: Process, pattern: re.Pattern[str]) -> str:
    """What a server says of where it is, in one of its first lines."""
    assert process.stdout is not None
    said = []
    async with asyncio.timeout(_START):
        while line := (await process.stdout.readline()).decode():
            found = pattern.search(line)
            if found is not None:
                return found[1]
            said.append(line)
    raise RuntimeError(f"expected a server to say where it is, got {said}")
