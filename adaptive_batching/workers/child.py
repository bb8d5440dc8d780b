"""What runs inside a worker process: `python -m adaptive_batching.workers.child FD`.

Reads frames from the inherited socket and answers each, one at a time, until the other end closes.
Whatever the handler does, short of ending the process, becomes an answer.
"""

import asyncio
import contextlib
import ctypes
import inspect
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import psutil

from adaptive_batching.wire.frames import FrameDecoder, Part, encode
from adaptive_batching.workers import handler as handlers
from adaptive_batching.workers.instructions import Instructions
from adaptive_batching.workers.parcel import pack, pack_error, pack_results, unpack
from adaptive_batching.workers.results import check_results

_CHUNK = 2**18  # bytes; as much as asyncio reads at once
_PR_SET_PDEATHSIG = 1


def main(fd: int) -> None:
    """Serve the socket `fd` until its other end closes."""
    _leave_signals_to_the_parent()
    with socket.socket(fileno=fd) as stream, asyncio.Runner() as runner:
        payloads = _payloads(stream)
        first = next(payloads, None)
        if first is None:
            return
        try:
            call = _prepare(unpack(first), runner)
        except BaseException as error:  # noqa: BLE001 - the parent is to know
            _send(stream, encode(pack_error(error)))
            return
        _send(stream, encode(pack((True, None))))
        for payload in payloads:
            _send(stream, _answer(call, payload))


def _leave_signals_to_the_parent() -> None:
    """Let it be the parent who says when to stop, so that it can finish what it holds."""

    def ignore(number: int, frame: FrameType | None) -> None:
        """Unlike SIG_IGN, is not inherited by processes that the handler starts."""

    signal.signal(signal.SIGINT, ignore)  # Ctrl-C reaches the whole group
    signal.signal(signal.SIGTERM, ignore)  # systemd, too, sends it to all
    if sys.platform == "linux":  # end with the parent even in the middle of a computation
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prepare(instructions: Instructions, runner: asyncio.Runner) -> Callable[[list[Any]], Any]:
    if os.getppid() != instructions.parent:
        raise SystemExit  # it died before we asked to be told
    if instructions.cpus is not None:
        _pin(instructions.cpus)
    batch_call, warm_up = handlers.build(instructions.handler.load())

    async def completed(awaitable: Any) -> Any:
        return await awaitable

    def call(items: list[Any]) -> Any:
        value = batch_call(items)
        return runner.run(completed(value)) if inspect.isawaitable(value) else value

    warmth = warm_up()
    if inspect.isawaitable(warmth):
        runner.run(completed(warmth))
    return instructions.wrap.load()(call) if instructions.wrap else call


def _pin(cpus: tuple[int, ...]) -> None:
    """Stay on these cores, together with the threads that imports have started already."""
    if sys.platform == "linux":
        for thread in psutil.Process().threads():
            os.sched_setaffinity(thread.id, cpus)


def _answer(call: Callable[[list[Any]], Any], payload: bytearray) -> list[Part]:
    try:
        items = unpack(payload)
        value = call(items)
        results = check_results(value, len(items))
        if hasattr(value, "__array__"):
            results = value.__array__()  # whole, it travels as one buffer
        return encode(pack_results(results))
    except BaseException as error:  # noqa: BLE001 - an exit, too, is an answer
        return encode(pack_error(error))


def _payloads(stream: socket.socket) -> Iterator[bytearray]:
    decoder = FrameDecoder()
    while data := stream.recv(_CHUNK):
        yield from decoder.feed(data)


def _send(stream: socket.socket, pieces: list[Part]) -> None:
    if sum(map(len, pieces)) < _CHUNK:
        stream.sendall(b"".join(pieces))
        return
    for piece in pieces:
        stream.sendall(piece)


if __name__ == "__main__":
    with contextlib.suppress(ConnectionError):  # nobody is left to answer to
        main(int(sys.argv[1]))
