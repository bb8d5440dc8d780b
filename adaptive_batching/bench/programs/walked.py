"""The command line in a process that counts what requests cross: `python -m … FILE serve …`.

A request begins when bytes are read from a client's socket, and ends when bytes are written to it.
This holds for any server on asyncio; uvloop does not show its sockets to a profile function.
"""

import json
import runpy
import socket
import sys
from collections import Counter, deque
from pathlib import Path
from types import FrameType
from typing import Any

import adaptive_batching

_PACKAGE = f"{Path(adaptive_batching.__file__).parent}/"
_READS = {"recv", "recv_into"}
_WRITES = {"send", "sendmsg"}
_KEPT = 50  # requests


class Walk:
    """A profile function that counts calls of ours, by file, for each of the last requests.

    A coroutine that goes on after a wait counts as another call.
    """

    def __init__(self) -> None:
        self.requests: deque[Counter[str]] = deque(maxlen=_KEPT)
        self._listening: list[object] = []
        self._read_from: socket.socket | None = None
        self._calls: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Called by the interpreter."""
        if event == "call" and self._read_from is not None:
            name = frame.f_code.co_filename
            if name.startswith(_PACKAGE):
                self._calls[name.removeprefix(_PACKAGE)] += 1
        elif event == "c_call":
            owner = getattr(argument, "__self__", None)
            if isinstance(owner, socket.socket):
                self._on_socket(owner, argument.__name__)

    def _on_socket(self, used: socket.socket, name: str) -> None:
        if name == "listen":
            self._listening.append(used.getsockname())
        elif name in _READS and used.getsockname() in self._listening:
            self._read_from, self._calls = used, Counter()
        elif name in _WRITES and used is self._read_from:
            self._read_from = None
            self.requests.append(self._calls)


if __name__ == "__main__":
    walk = Walk()
    written = Path(sys.argv.pop(1))
    sys.setprofile(walk)
    try:
        runpy.run_module("adaptive_batching", run_name="__main__", alter_sys=True)
    finally:
        sys.setprofile(None)
        written.write_text(json.dumps(list(walk.requests)))
