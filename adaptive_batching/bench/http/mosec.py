"""Beside mosec, whose front is in Rust and whose wait is set by hand, in a closed loop."""

import asyncio
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from adaptive_batching.bench import programs
from adaptive_batching.bench.harness.contest import hold
from adaptive_batching.bench.harness.report import Report, Unavailable, Verdict
from adaptive_batching.bench.harness.servers import ServerProcess, service
from adaptive_batching.bench.harness.traffic import ROWS
from adaptive_batching.load.connection import ClientConnection
from adaptive_batching.load.requests import Requests

_PROGRAM = Path(programs.__file__).with_name("mosec_model.py")
_PATH = "/inference"
_CONNECTIONS = 64
_WAITS = (1, 2, 3, 5, 8)  # ms; by 0, mosec means 10
_START = 60.0  # seconds
_OURS, _GREEDY = "cork", "greedy"
_REQUIRED = 1.0  # times mosec


async def measure(*, loop: str, quick: bool) -> Report:
    """The best of mosec's waits is found first; then it takes turns with two policies of ours.

    Raises:
        Unavailable: mosec can't be installed.
    """
    seconds, rounds, waits = (1.0, 1, _WAITS[3:4]) if quick else (3.0, 7, _WAITS)
    with TemporaryDirectory() as folder:
        python = await _environment(Path(folder))
        wait = await _best(python, waits, seconds)
        mosec = f"mosec, wait {wait} ms"
        async with service("latency", loop) as ours, _mosec(python, wait) as theirs:
            contestants = {
                _OURS: partial(_loaded, ours, f"/{_OURS}", seconds),
                _GREEDY: partial(_loaded, ours, f"/{_GREEDY}", seconds),
                mosec: partial(_loaded, theirs, _PATH, seconds),
            }
            found = await hold(contestants, rounds, quick=quick)
    rows = found.rows("server", mosec, {"times mosec": "requests/s"})
    title = (
        f"mosec: model of 5 ms + 0.05 ms·n in a process, {_CONNECTIONS} clients in a closed loop,"
        f" the best of mosec's waits of {', '.join(map(str, waits))} ms, {loop}"
    )
    times = found.times(_OURS, mosec)
    return Report(title, rows, [Verdict(_OURS, times, "at least", _REQUIRED, "times mosec")])


async def _loaded(server: ServerProcess, path: str, seconds: float) -> dict[str, float]:
    return await server.under_load(path, ROWS, connections=_CONNECTIONS, seconds=seconds)


async def _best(python: Path, waits: tuple[int, ...], seconds: float) -> int:
    """The wait with the most requests a second."""
    rates = {}
    for wait in waits:
        async with _mosec(python, wait) as server:
            rates[wait] = (await _loaded(server, _PATH, seconds))["requests/s"]
    return max(rates, key=rates.__getitem__)


async def _environment(folder: Path) -> Path:
    """The interpreter of a new environment that has mosec."""
    python = folder / "bin" / "python"
    for command in (
        (sys.executable, "-m", "venv", folder),
        (python, "-m", "pip", "install", "--quiet", "mosec"),
    ):
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
        said, _ = await process.communicate()
        if process.returncode:
            raise Unavailable(f"mosec can't be installed: {said.decode().strip()}")
    return python


@asynccontextmanager
async def _mosec(python: Path, wait: int) -> AsyncIterator[ServerProcess]:
    """The model behind mosec, from its first answer on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with TemporaryDirectory() as folder:
        where = ("--address=127.0.0.1", f"--port={port}", f"--path={folder}")
        process = await asyncio.create_subprocess_exec(
            python, "-P", _PROGRAM, str(wait), *where, stdout=DEVNULL, stderr=DEVNULL
        )
        try:
            server = ServerProcess(f"http://127.0.0.1:{port}", process.pid)
            await _first_answer(server.url)
            yield server
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _first_answer(url: str) -> None:
    request = Requests(url + _PATH, ROWS.bodies[:1], ROWS.headers).post(0)
    async with asyncio.timeout(_START):
        while True:
            try:
                connection = await ClientConnection.open(url)
                answer = await connection.post(request)
            except OSError:
                await asyncio.sleep(0.05)  # it does not listen yet
                continue
            connection.close()
            if answer.status == 200:
                return
