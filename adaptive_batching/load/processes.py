"""Starts a generator in a process of its own, so that it does not slow down what it measures."""

import asyncio
import sys
from asyncio.subprocess import PIPE

import msgspec

from adaptive_batching.load import wrk
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
    """Send as fast as the answers come: with `wrk` if it is installed, else with our own client.

    Raises:
        LoadError: The generator failed, rather than its requests.
    """
    command = wrk.command()
    if command is None:
        return msgspec.json.decode(await _generate(plan), type=Throughput)
    with wrk.script(plan) as path:
        return wrk.result(await _output([*command, *wrk.arguments(plan, path)]))


async def _generate(plan: OpenLoop | ClosedLoop) -> bytes:
    command = [sys.executable, "-P", "-m", "adaptive_batching.load"]
    return await _output(command, msgspec.json.encode(plan))


async def _output(command: list[str], told: bytes = b"") -> bytes:
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    try:
        output, complaint = await process.communicate(told)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise LoadError(complaint.decode(errors="replace").strip() or f"{command[0]} failed")
    return output
