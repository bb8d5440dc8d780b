"""Connections that are one too many: nobody is told anything on them, but operators are."""

import logging

from adaptive_batching.marshal.http.log_rate_limit import LogRateLimit
from adaptive_batching.units import format_duration

_log = logging.getLogger("adaptive_batching.marshal")


class DroppedConnections:
    """Counts them, and says in the log that there are some.

    Args:
        most: Connections at a time.

    Attributes:
        count: How many so far.
    """

    def __init__(self, most: int) -> None:
        self.count = 0
        self._most = most
        self._bursts: LogRateLimit[None] = LogRateLimit(_sum_up)

    def enter(self) -> None:
        """One more was dropped."""
        self.count += 1
        if self._bursts.begins(None):
            line = "a connection was dropped: %d are open, a bound or the open files allow no more"
            _log.warning(line, self._most)


def _sum_up(_: None, more: int, seconds: float) -> None:
    within = format_duration(seconds)
    _log.warning("%d more connections were dropped within %s", more, within, extra={"count": more})
