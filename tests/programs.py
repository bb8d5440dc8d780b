"""Programs that tests start."""

import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def told_to_end(process: Process) -> AsyncIterator[None]:
    """Tell a program to end, and see that it does so without an error; kill it if a test fails."""
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
