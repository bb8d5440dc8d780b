"""What comes one upon another, told of in a few lines."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_QUIET = 1.0  # seconds without one of a kind, after which its burst is over
_PROGRESS = 60.0  # seconds after which a burst that goes on is told of again

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Burst:
    """Those of one kind.

    Attributes:
        told: When the last line about it was written (seconds).
        more: How many came since then.
        seen: How many of them were there at the last look.
    """

    told: float
    more: int = 0
    seen: int = 0


class LogRateLimit(Generic[K]):
    """The first of a burst is told of at once, and at its end how many more there were.

    Args:
        sum_up: Tells how many more of a kind came within how many seconds; once a minute, too,
            while a burst lasts.
    """

    def __init__(self, sum_up: Callable[[K, int, float], None]) -> None:
        self._sum_up = sum_up
        self._bursts: dict[K, _Burst] = {}

    def __len__(self) -> int:
        return len(self._bursts)

    def begins(self, kind: K) -> bool:
        """Count one more; whether it is the first of a burst, for the caller to tell of."""
        burst = self._bursts.get(kind)
        if burst is not None:
            burst.more += 1
            return False
        loop = asyncio.get_running_loop()
        self._bursts[kind] = _Burst(loop.time())
        loop.call_later(_QUIET, self._look, kind, loop)
        return True

    def flush(self) -> None:
        """Tell how many there were of which no line tells yet: no more of them will come."""
        now = asyncio.get_running_loop().time()
        for kind, burst in self._bursts.items():
            self._tell(kind, burst, now)

    def _look(self, kind: K, loop: asyncio.AbstractEventLoop) -> None:
        burst, now = self._bursts[kind], loop.time()
        lasts = burst.more > burst.seen
        if not lasts or now >= burst.told + _PROGRESS:
            self._tell(kind, burst, now)
        burst.seen = burst.more
        if lasts:
            loop.call_later(_QUIET, self._look, kind, loop)
        else:
            del self._bursts[kind]

    def _tell(self, kind: K, burst: _Burst, now: float) -> None:
        if burst.more:
            self._sum_up(kind, burst.more, now - burst.told)
            burst.told, burst.more = now, 0
