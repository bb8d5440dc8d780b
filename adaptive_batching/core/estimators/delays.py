"""How long something takes that takes about as long each time, and how long it seldom exceeds."""

from typing import ClassVar

_SHARE = 1 / 16  # of a newcomer in the mean


class Ewma:
    """Mean and mean deviation of some seconds, exponentially weighted (Jacobson 1988).

    Args:
        deviation: What is believed before anything was seen (seconds).
    """

    __slots__ = ("_deviation", "_mean")
    certainty: ClassVar = 4.0  # mean deviations; as TCP allows for late answers

    def __init__(self, deviation: float = 0.0) -> None:
        self._mean = 0.0
        self._deviation = deviation

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._mean * 1e3:.3g} ms ±{self._deviation * 1e3:.3g} ms>"

    @property
    def nearly_all(self) -> float:
        """Seconds that are seldom exceeded."""
        return self._mean + self.certainty * self._deviation

    def saw(self, seconds: float) -> None:
        """One more."""
        surprise = seconds - self._mean
        self._mean += _SHARE * surprise
        self._deviation += _SHARE * (abs(surprise) - self._deviation)
