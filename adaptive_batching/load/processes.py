"""Starts a generator in a process of its own, so that it does not slow down what it measures."""

import asyncio
import sys
from asyncio.subprocess import PIPE

import msgspec

from adaptive_batching.load.plans import Answer, ClosedLoop, OpenLoop, Throughput


class LoadError(RuntimeError):
    """A generator did not come to its end; the message is what it said."""


async def run_open_loop(plan: OpenLoop) -> list[Answer]:
    """Send what the plan says; one answer for each request, in the order of sending.

    Raises:
        LoadError: The generator failed, rather than its requests.
    """
    return msgspec.json.decode(await _generate(plan), type=list[Answer])


async def run_closed_loop(plan: ClosedLoop) -> Throughput:
    """Send as fast as the answers come.

    Raises:
        LoadError: The generator failed, rather than its requests.
    """
    return msgspec.json.decode(await _generate(plan), type=Throughput)


async def _generate(plan: OpenLoop | ClosedLoop) -> bytes:
    command = [sys.executable, "-P", "-m", "adaptive_batching.load"]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    try:
        output, complaint = await process.communicate(msgspec.json.encode(plan))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise LoadError(complaint.decode(errors="replace").strip() or "the generator failed")
    return output
