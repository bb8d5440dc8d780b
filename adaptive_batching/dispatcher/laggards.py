"""Tells the log of workers that are much slower than their peers, once each time."""

import logging
from collections.abc import Hashable, Sequence

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
        self.known: dict[int, Hashable] = {}
        """Those that have been reported as slow: their indexes, and who they were."""
        self._pool = pool
        self._full = full

    def look(self, workers: Sequence[Worker]) -> None:
        """Report who has become slow, or is fast again, since the last look."""
        for worker in workers:
            slowness = worker.latency.factor
            if self.known.get(worker.index, worker.identity) != worker.identity:
                del self.known[worker.index]  # another one has taken its place
            if worker.index in self.known:
                if slowness < _FAST_AGAIN:
                    del self.known[worker.index]
                    _log.info(
                        "worker %s of %s is as fast as most again", _name(worker), repr(self._pool)
                    )
            elif slowness >= _SLOW:
                self.known[worker.index] = worker.identity
                takes = format_duration(worker.latency.predict(self._full))
                _log.warning(
                    "worker %s of %s takes %.1f times as long as most (%s for a full batch), so it"
                    " gets less to do",
                    *(_name(worker), repr(self._pool), slowness, takes),
                )


def _name(worker: Worker) -> str:
    """Its index, and what it calls itself if it does."""
    named = isinstance(worker.identity, str)
    return f"{worker.index} ({worker.identity!r})" if named else str(worker.index)
