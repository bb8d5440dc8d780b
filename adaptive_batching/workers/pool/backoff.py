"""How long to wait before a worker is started again."""

from collections.abc import Callable

_FIRST = 0.1  # seconds; a single crash is hardly noticed
_LONGEST = 10.0  # seconds; a cure is noticed soon, and a crash loop costs little
_HEALTHY = 30.0  # seconds of life after which earlier crashes are forgotten


class Backoff:
    """Doubles with every short life, from 0.1 to 10 seconds.

    Args:
        random: Returns numbers from 0 to 1, so that workers that died together start apart.
    """

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._next = _FIRST

    def after(self, lived: float) -> float:
        """Seconds to wait, after a worker that was alive for `lived` seconds."""
        if lived >= _HEALTHY:
            self._next = _FIRST
        delay = self._next
        self._next = min(2 * delay, _LONGEST)
        return delay * (0.5 + 0.5 * self._random())
