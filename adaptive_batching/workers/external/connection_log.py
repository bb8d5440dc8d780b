"""Who comes to a socket and goes again, as lines of our log."""

import asyncio
import logging

_MOST = 20  # lines in a window: whoever comes and goes all the time must not fill the disk
_WINDOW = 1.0  # seconds

_log = logging.getLogger("adaptive_batching.workers")


class ConnectionLog:
    """Enters what happens at a socket; of a flood the beginning, and how many more there were.

    Args:
        name: Of the socket.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._entered = 0
        self._omitted = 0
        self._window: asyncio.TimerHandle | None = None

    def enter(self, level: int, event: str) -> None:
        """Say what happened."""
        if self._window is None:
            self._window = asyncio.get_running_loop().call_later(_WINDOW, self.sum_up)
        if self._entered < _MOST:
            self._entered += 1
            _log.log(level, "%s: %s", self._name, event)
        else:
            self._omitted += 1

    def sum_up(self) -> None:
        """Say how much more happened than was entered, and begin anew."""
        if self._window is not None:
            self._window.cancel()
            self._window = None
        if self._omitted:
            _log.warning("%s: workers came and went %d more times", self._name, self._omitted)
        self._entered = self._omitted = 0
