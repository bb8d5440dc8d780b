"""Whether the event loop keeps up: how late it is with what should happen now."""

import asyncio

from adaptive_batching.instrumentation.histograms import Histogram

_PERIOD = 0.1  # seconds; ten looks a second cost nothing that could be measured


class LoopLag:
    """Looks ten times a second how late a timer is.

    A handler that computes on the loop, a pause of the garbage collector or a machine that has no
    time for us: whatever stops the loop delays every answer by as much.

    Attributes:
        seconds: How late timers were.
    """

    def __init__(self) -> None:
        self.seconds = Histogram()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at the running loop from now on."""
        loop = asyncio.get_running_loop()
        self._wait(loop)

    def stop(self) -> None:
        """Look no more. Safe to call twice, and before `start`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _PERIOD
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.seconds.observe(max(0.0, loop.time() - due))
        self._wait(loop)
