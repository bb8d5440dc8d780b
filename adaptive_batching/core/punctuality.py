"""How late wake-ups come: event loops round their timers, and are busy when one is due."""

from math import inf

_SHARE = 1 / 16  # of a newcomer in the mean
_PRIOR = 0.5e-3  # seconds; asyncio rounds waits up to a millisecond
_CERTAINTY = 2.0  # mean deviations; as TCP allows for late answers (Jacobson 1988, with 4)


class Punctuality:
    """Mean and mean deviation of the lateness of wake-ups, exponentially weighted."""

    __slots__ = ("_deviation", "_mean", "due")

    def __init__(self) -> None:
        self.due = inf
        """When the next wake-up was asked for (seconds)."""
        self._mean = 0.0
        self._deviation = _PRIOR

    def __repr__(self) -> str:
        return f"<Punctuality {self._mean * 1e3:.3g} ms ±{self._deviation * 1e3:.3g} ms>"

    @property
    def late(self) -> float:
        """Seconds by which nearly no wake-up is later."""
        return self._mean + _CERTAINTY * self._deviation

    def woke(self, now: float) -> None:
        """It is `due` or later."""
        surprise = now - self.due - self._mean
        self._mean += _SHARE * surprise
        self._deviation += _SHARE * (abs(surprise) - self._deviation)
        self.due = inf
