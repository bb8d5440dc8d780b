"""An event loop whose clock jumps to the next timer instead of waiting for it."""

import asyncio
import contextlib
import selectors
from collections.abc import Coroutine, Iterator
from math import inf, nextafter
from typing import Any, TypeVar

T = TypeVar("T")


class _NextFloat(float):
    """Added to a time, it gives the very next float: a timer due now runs now, and no other."""

    def __radd__(self, time: float) -> float:
        return nextafter(time, inf)


class _NoWaiting(selectors.SelectSelector):
    """Never blocks: there is no I/O in virtual time."""

    def __init__(self, loop: "VirtualTimeLoop") -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        scheduled = self._loop._scheduled
        if timeout is None:
            raise RuntimeError("nothing is scheduled: this test would wait for ever")
        if timeout > 0 and scheduled:
            self._loop.now = max(self._loop.now, scheduled[0].when())
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Asyncio's own loop in virtual seconds, exact to the last bit."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_NoWaiting(self))
        self._clock_resolution = _NextFloat()

    def time(self) -> float:
        return self.now


@contextlib.contextmanager
def virtual_time() -> Iterator[VirtualTimeLoop]:
    """A virtual-time loop, closed at the end."""
    loop = VirtualTimeLoop()
    try:
        yield loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def hold_the_loop(seconds: float) -> None:
    """Compute for so long on the running loop, in virtual time: its timers come late."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.now += seconds


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time, as asyncio.run does in real time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
