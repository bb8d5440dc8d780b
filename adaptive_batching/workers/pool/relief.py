"""When a worker whose memory ran out makes way for a fresh one."""

from collections.abc import Callable
from math import inf

from adaptive_batching.workers.pool.backoff import Backoff


class Relief:
    """How soon a worker whose memory has run out makes way for a fresh one.

    What is left of it is in pieces, and what its batch left half done may stay so. But a handler
    that asks for too much, or a client that makes it, does so again in a fresh process: in a pool
    this happens the more rarely the more often it did, up to every 10 seconds.

    Args:
        clock: Monotonic seconds.
        random: Returns numbers from 0 to 1.
    """

    def __init__(self, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._clock = clock
        self._backoff = Backoff(random)
        self._last = -inf

    def pause(self) -> float:
        """Seconds to wait this time."""
        now = self._clock()
        since, self._last = now - self._last, now
        return self._backoff.after(since)
