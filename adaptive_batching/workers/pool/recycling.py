"""When a worker that works well has worked long enough: libraries leak memory and handles."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from weakref import WeakKeyDictionary

import psutil

from adaptive_batching.workers.pool.launcher import PoolWorker

_log = logging.getLogger("adaptive_batching")

_JITTER = 0.1  # of a limit; workers that started together are not worn out together
_LOOK_EVERY = 1.0  # seconds; to ask for a process's memory takes a tenth of a short batch


class Lifetimes:
    """Keeps count of what each worker of a pool has left; its limits come up to a tenth sooner.

    Args:
        max_batches: Batches that a worker may run; None for any number.
        max_rss: Bytes of memory that its process may hold (resident set size); None for any.
        clock: Monotonic seconds.
        random: Returns numbers from 0 to 1.
    """

    def __init__(
        self,
        max_batches: int | None,
        max_rss: int | None,
        *,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._max_batches = inf if max_batches is None else max_batches
        self._max_rss = inf if max_rss is None else max_rss
        self._clock = clock
        self._random = random
        self._lifetimes: WeakKeyDictionary[PoolWorker, _Lifetime] = WeakKeyDictionary()

    def over(self, worker: PoolWorker) -> bool:
        """Whether a worker that has just ended a batch should make way."""
        lifetime = self._lifetimes.get(worker)
        if lifetime is None:
            lifetime = self._lifetimes[worker] = self._begin(worker)
        lifetime.batches_left -= 1
        if lifetime.batches_left <= 0:
            return True
        if lifetime.max_rss == inf or self._clock() < lifetime.look_again:
            return False
        lifetime.look_again = self._clock() + _LOOK_EVERY
        return _rss(worker) > lifetime.max_rss

    def _begin(self, worker: PoolWorker) -> "_Lifetime":
        """At its first batch: what it holds now is no leak, and a fresh one would hold as much."""
        share = 1.0 - _JITTER * self._random()
        max_rss = self._max_rss * share
        held = _rss(worker) if max_rss < inf else 0
        if held > max_rss:
            _log.warning(
                "%r holds %d bytes after its first batch; max_rss=%d is not heeded, raise it",
                *(worker, held, self._max_rss),
            )
            max_rss = inf
        return _Lifetime(self._max_batches * share, max_rss, self._clock() + _LOOK_EVERY)


@dataclass(slots=True)
class _Lifetime:
    batches_left: float
    max_rss: float
    look_again: float


def _rss(worker: PoolWorker) -> int:
    """Bytes; 0 of a process that is gone or runs on another machine."""
    try:
        return psutil.Process(worker.pid).memory_info().rss if worker.pid is not None else 0
    except psutil.Error:
        return 0
