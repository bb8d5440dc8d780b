"""Servers as processes: started on a free port, waited for, ended with all that they started."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress

import aiohttp

SIDECAR = [sys.executable, "-m", "adaptive_batching", "sidecar", "--port=0"]


@asynccontextmanager
async def serving(command, url, ready, log, **how):
    """A server while it runs; begun when `ready` is answered with 200."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *map(str, command), stdout=output, stderr=output, start_new_session=True, **how
        )
    try:
        await _ready(process, f"{url}{ready}", log)
        yield process
    finally:
        await _end(process)


async def _ready(process, url, log):
    async with aiohttp.ClientSession() as session:
        with suppress(TimeoutError):
            async with asyncio.timeout(90):
                while process.returncode is None:
                    with suppress(aiohttp.ClientError):
                        async with session.get(url) as response:
                            if response.status == 200:
                                return
                    await asyncio.sleep(0.1)
    raise AssertionError(f"expected 200 from {url}, got this server:\n{log.read_text()[-3000:]}")


async def _end(process):
    """Its workers are in its group, and some servers leave them behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await process.wait()
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


@asynccontextmanager
async def sidecar(upstream, options, log):
    """The sidecar as a program; yields its URL, and sees to it that nothing is left in it."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *SIDECAR,
            f"--upstream={upstream}",
            *options,
            stdout=asyncio.subprocess.PIPE,
            stderr=output,
        )
    try:
        async with asyncio.timeout(30):
            announced = await process.stdout.readline()
        yield announced.split()[0].decode()
        process.terminate()
        async with asyncio.timeout(20):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    told = log.read_text()
    assert "Traceback" not in told, told
