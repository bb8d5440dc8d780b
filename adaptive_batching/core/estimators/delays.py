"""Learns delays of the process itself: an event loop with much to do notices timers late."""

from math import inf

from adaptive_batching.core.estimators.evidence import SHORT_MEMORY

TIMER_RESOLUTION = 0.5e-3  # seconds; asyncio rounds up to a millisecond
LARGEST_SHARE = 0.2  # of a promise: what is allowed for late timers after a pause, or left to wait


class Ewma:
    """The exponentially weighted mean of some seconds, and their mean deviation (Jacobson 1988).

    Args:
        certainty: Mean deviations above the mean that nearly no value exceeds.
        deviation: What is believed before anything was seen (seconds).
    """

    __slots__ = ("_certainty", "_deviation", "_mean")

    def __init__(self, certainty: float, deviation: float = 0.0) -> None:
        self._certainty = certainty
        self._mean = 0.0
        self._deviation = deviation

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._mean * 1e3:.3g} ms ±{self._deviation * 1e3:.3g} ms>"

    @property
    def nearly_all(self) -> float:
        """Seconds that few values exceed."""
        return self._mean + self._certainty * self._deviation

    def saw(self, seconds: float) -> None:
        """Count one more value."""
        surprise = seconds - self._mean
        self._mean += surprise / SHORT_MEMORY
        self._deviation += (abs(surprise) - self._deviation) / SHORT_MEMORY


class TimerLateness(Ewma):
    """Learns how late wake-ups come: event loops round timers, and are busy when one is due.

    Args:
        resolution: Of the timers (seconds): what is believed before any has been late, and at most.
    """

    __slots__ = ("_coarsest", "due", "late", "resolution")

    def __init__(self, resolution: float = TIMER_RESOLUTION) -> None:
        super().__init__(2.0, resolution)
        self._coarsest = resolution
        self.resolution = resolution
        """Seconds by which wake-ups are late on average; shorter holds are not worth arming. A busy
        process makes it no coarser: without holds, it would never learn that it is idle again."""
        self.late = self.nearly_all
        """Seconds by which nearly no wake-up has been later than it was asked for."""
        self.due = inf
        """When the next wake-up was asked for (seconds)."""

    def woke(self, now: float) -> None:
        """A wake-up came, at `due` or later."""
        self.saw(now - self.due)
        self.late = self.nearly_all
        self.resolution = min(self._coarsest, self.late / 2)
        self.due = inf
