"""Rate-limits repeated log messages."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_QUIET = 1.0  # seconds without one of a kind, after which its burst is over
_PROGRESS = 60.0  # seconds after which a burst that goes on is told of again

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Burst:
    """Messages of one kind that follow each other closely.

    Attributes:
        told: When the last line about it was written (seconds).
        more: Messages since then.
        seen: How many of these there were at the last look.
    """

    told: float
    more: int = 0
    seen: int = 0


class LogRateLimit(Generic[K]):
    """Lets the first message of a burst be logged, and counts the others until its end.

    Args:
        sum_up: Logs how many more of a kind there were within how many seconds: at the end of a
            burst, and once a minute while it lasts.
    """

    def __init__(self, sum_up: Callable[[K, int, float], None]) -> None:
        self._sum_up = sum_up
        self._bursts: dict[K, _Burst] = {}

    def __len__(self) -> int:
        return len(self._bursts)

    def begins(self, kind: K) -> bool:
        """Count a message; whether it is the first of a burst, which the caller logs."""
        burst = self._bursts.get(kind)
        if burst is not None:
            burst.more += 1
            return False
        loop = asyncio.get_running_loop()
        self._bursts[kind] = _Burst(loop.time())
        loop.call_later(_QUIET, self._look, kind, loop)
        return True

    def flush(self) -> None:
        """Log at once the messages that are counted and in no line yet, as their source ends."""
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
