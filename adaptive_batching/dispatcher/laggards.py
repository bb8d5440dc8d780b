"""Tells the log of workers that are much slower than their peers, once each time."""

import logging
from collections.abc import Sequence

from adaptive_batching.core import Worker
from adaptive_batching.units import format_duration
from adaptive_batching.workers.interface import Workers

_log = logging.getLogger("adaptive_batching")

_SLOW = 1.5  # times as long as most; what differs less is everyday life on a shared machine
_FAST_AGAIN = 1.25  # well below, or one at the limit would be reported again and again


class Laggards:
    """Watches how the workers of one dispatcher compare.

    Args:
        pool: Whose workers they are, for messages.
        full: Items in a full batch.
    """

    __slots__ = ("_full", "_pool", "known")

    def __init__(self, pool: Workers, full: int) -> None:
        self.known: set[int] = set()
        """Indexes of those that have been reported as slow."""
        self._pool = pool
        self._full = full

    def look(self, workers: Sequence[Worker]) -> None:
        """Report who has become slow, or is fast again, since the last look."""
        for worker in workers:
            slowness = worker.latency.factor
            if worker.index in self.known:
                if slowness < _FAST_AGAIN:
                    self.known.remove(worker.index)
                    _log.info(
                        "worker %d of %s is as fast as most again", worker.index, repr(self._pool)
                    )
            elif slowness >= _SLOW:
                self.known.add(worker.index)
                takes = format_duration(worker.latency.predict(self._full))
                _log.warning(
                    "worker %d of %s takes %.1f times as long as most (%s for a full batch), so it"
                    " gets less to do",
                    *(worker.index, repr(self._pool), slowness, takes),
                )
