"""Tells the log of workers that are much slower than their peers, once each time."""

import logging
from collections.abc import Hashable, Sequence

from adaptive_batching.core import Worker
from adaptive_batching.core.worker import slowness
from adaptive_batching.units import format_duration
from adaptive_batching.workers.interface import Workers

_log = logging.getLogger("adaptive_batching")

_SLOW = 1.5  # times as long as most; what differs less is everyday life on a shared machine
_FAST_AGAIN = 1.25  # well below, or one at the limit would be reported again and again
_PEERS = 2  # one that is alone is as fast as all
_Identity = tuple[int, Hashable]  # index and identity
_LASTING = 10.0  # seconds; any worker is slow while another one loads its model


class SlowWorkers:
    """Watches how the workers of one dispatcher compare.

    Args:
        pool: What the workers belong to, for messages.
        full: Items in a full batch.
    """

    __slots__ = ("_full", "_pool", "_reported", "since")

    def __init__(self, pool: Workers, full: int) -> None:
        self.since: dict[_Identity, float] = {}
        """Since when each of those that are slow now has been so (seconds)."""
        self._reported: set[_Identity] = set()
        self._pool = pool
        self._full = full

    def look(self, workers: Sequence[Worker], now: float) -> None:
        """Report workers that have been slow for a while, and those that are fast again."""
        if sum(worker.alive for worker in workers) < _PEERS:
            self.since.clear()
            self._reported.clear()
            return
        present = {(worker.index, worker.identity): worker for worker in workers}
        for gone in self.since.keys() - present.keys():  # another one has taken its place
            self._forget(gone)
        for (identity, worker), factor in zip(present.items(), slowness(workers), strict=True):
            if factor >= _SLOW:
                since = self.since.setdefault(identity, now)
                if now - since >= _LASTING and identity not in self._reported:
                    self._reported.add(identity)
                    self._report(worker, factor)
            elif factor < _FAST_AGAIN and identity in self.since:
                if identity in self._reported:
                    pool = repr(self._pool)  # as it is now, whenever the line is written
                    _log.info("worker %s of %s is as fast as most again", _name(worker), pool)
                self._forget(identity)

    def _report(self, worker: Worker, factor: float) -> None:
        takes = format_duration(worker.latency.predict(self._full))
        _log.warning(
            "worker %s of %s takes %.1f times as long as most (%s for a full batch), so it gets"
            " less to do",
            *(_name(worker), repr(self._pool), factor, takes),
        )

    def _forget(self, identity: _Identity) -> None:
        del self.since[identity]
        self._reported.discard(identity)


def _name(worker: Worker) -> str:
    """A worker's index, and its own name if it has one."""
    return f"{worker.index} ({worker.name!r})" if worker.name else str(worker.index)
