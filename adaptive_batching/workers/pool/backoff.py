"""How long to wait before a worker is started again, or makes way for a fresh one."""

from collections.abc import Callable
from math import inf

_FIRST = 0.1  # seconds; a single crash is hardly noticed
_LONGEST = 10.0  # seconds; a cure is noticed soon, and a crash loop costs little
_HEALTHY = 30.0  # seconds of life after which earlier crashes are forgotten


class Backoff:
    """Doubles with every short life, from 0.1 to 10 seconds.

    The pause is for workers that are no use however often they start. A worker that answered a
    batch was of use, and what it died of later may have been one item: the pool forgets then.

    Args:
        random: Returns numbers from 0 to 1, so that workers that died together start apart.
    """

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._next = _FIRST

    def after(self, lived: float) -> float:
        """Seconds to wait, after a worker that was alive for `lived` seconds."""
        if lived >= _HEALTHY:
            self.forget()
        delay = self._next
        self._next = min(2 * delay, _LONGEST)
        return delay * (0.5 + 0.5 * self._random())

    def forget(self) -> None:
        """Take the next death for the first one."""
        self._next = _FIRST


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
