"""What runs inside a worker process: `python -m adaptive_batching.workers.child FD [MEMORY]`.

Reads frames from the inherited socket and answers each, one at a time, until the other end closes.
Large arrays are in the inherited shared memory, if there is any.
Whatever the handler does, short of ending the process, becomes an answer.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
from functools import partial
from io import TextIOWrapper
from types import FrameType
from typing import Any, cast

from adaptive_batching.errors import BatchFunctionError
from adaptive_batching.wire.frames import FrameTooLong, Part, encode
from adaptive_batching.workers.pinning import pin
from adaptive_batching.workers.process.frame_layout import returning
from adaptive_batching.workers.process.instructions import Instructions
from adaptive_batching.workers.process.serialization import Raised, pack, unpack
from adaptive_batching.workers.process.shared_memory import End, SharedMemory
from adaptive_batching.workers.process.stream import payloads, send
from adaptive_batching.workers.process.worker_loop import WorkerLoop
from adaptive_batching.workers.worker_index import number_process

_PR_SET_PDEATHSIG = 1


def main(fd: int, memory_fd: int | None = None) -> None:
    """Serve the socket `fd` until its other end closes."""
    _leave_signals_to_the_parent()
    cast("TextIOWrapper", sys.stdout).reconfigure(line_buffering=True)  # logged as it is printed
    with socket.socket(fileno=fd) as stream, asyncio.Runner() as runner:
        received = payloads(stream)
        first = next(received, None)
        if first is None:
            return
        instructions: Instructions = unpack(first)
        most = instructions.max_result_bytes
        memory = _shared_memory(memory_fd)
        loop = WorkerLoop(runner, memory)
        send(stream, _framed(loop.prepare(partial(_obey, instructions)), most, memory))
        for payload in received:
            answer = loop.answer(payload)  # by now its items are gone, and are told to be
            send(stream, _framed(answer, most, memory))


def _leave_signals_to_the_parent() -> None:
    """Let the parent say when to stop, so that it can finish what it holds."""

    def ignore(number: int, frame: FrameType | None) -> None:
        """Unlike SIG_IGN, is not inherited by processes that the handler starts."""

    signal.signal(signal.SIGINT, ignore)  # Ctrl-C reaches the whole group
    signal.signal(signal.SIGTERM, ignore)  # systemd, too, sends it to all
    # The end of the socket is only seen by what reads from it, which a computation does not, nor a
    # thread beside it while C code keeps the interpreter lock. So the kernel has to end us, with
    # the thread that started us: that of the parent's event loop.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _obey(instructions: Instructions) -> tuple[Any, Any]:
    """Do what the first frame says; returns the handler and what to wrap it in."""
    if os.getppid() != instructions.parent:
        raise SystemExit  # it died before we asked to be told
    number_process(instructions.index)
    if instructions.cpus is not None:
        pin(instructions.cpus)
    handler = instructions.handler.load()
    return handler, instructions.wrap.load() if instructions.wrap else None


def _shared_memory(fd: int | None) -> SharedMemory | None:
    if fd is None:
        return None
    memory = SharedMemory(fd, End.CHILD)
    os.close(fd)  # what the handler starts has no business with it
    return memory


def _framed(answer: list[Part], most: int, memory: SharedMemory | None) -> list[Part]:
    if memory is not None and memory.has_news:
        return _framed_with_news(answer, most, memory)
    try:
        return encode(answer, most)
    except FrameTooLong:
        return _refusal(sum(map(len, answer)), most)


def _framed_with_news(answer: list[Part], most: int, memory: SharedMemory) -> list[Part]:
    shared = memory.lending_bytes
    try:
        return encode(returning(answer, memory.end_message()), most - shared)
    except FrameTooLong:
        memory.forget_message()
        return _refusal(shared + sum(map(len, answer)), most)


def _refusal(length: int, most: int) -> list[Part]:
    msg = f"expected results, or an error, of at most {most:,} bytes together, got {length:,}"
    return encode(pack(Raised(BatchFunctionError(f"{msg}: see max_result_bytes"))))


if __name__ == "__main__":
    with contextlib.suppress(ConnectionError):  # no parent is left to answer to
        main(*map(int, sys.argv[1:]))
