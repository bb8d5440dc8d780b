"""How long what is read from a socket has lain in the kernel."""

import socket
import sys
from math import inf
from typing import Any

_LAST_RECEIVED = slice(52, 56)  # tcpi_last_data_recv in struct tcp_info, linux/tcp.h: milliseconds
_SPARE = 5e-3  # seconds in which nobody else is asked if nobody has waited
_TICK = 4e-3  # seconds; by which that may be wrong, for the kernel counts in ticks


class KernelWait:
    """How long what is read has waited in the kernel: asked of all only while anybody has waited.

    The answer costs a twentieth of a request, and those that are read together waited alike.
    """

    __slots__ = ("_asked", "_last")

    def __init__(self) -> None:
        self._last, self._asked = 0.0, -inf

    def of(self, connection: Any, now: float) -> float:
        """Seconds for which a socket's last bytes have waited, at the least.

        Args:
            connection: The socket.
            now: The present (monotonic seconds).
        """
        if not self._last and now - self._asked < _SPARE:
            return 0.0
        self._asked = now
        try:
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_RECEIVED.stop)
        except (OSError, TypeError):  # a Unix socket; older uvloops show nothing of theirs
            return 0.0
        waited = int.from_bytes(info[_LAST_RECEIVED], sys.byteorder) * 1e-3
        self._last = max(0.0, waited - _TICK)
        return self._last
