"""Learns delays of the process itself: late timers, and the way of requests in and answers out.

An event loop with much to do notices timers and requests late, and sends answers late.
"""

from math import inf
from typing import ClassVar

_WEIGHT = 1 / 16  # of a new value in the mean
TIMER_RESOLUTION = 0.5e-3  # seconds; asyncio rounds up to a millisecond
# Of what a client waits: after a pause of the process no request is refused for that alone.
_LARGEST_SHARE = 0.25


class Ewma:
    """The exponentially weighted mean of some seconds, and their mean deviation (Jacobson 1988).

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
        """Seconds that few values exceed."""
        return self._mean + self.certainty * self._deviation

    def saw(self, seconds: float) -> None:
        """Count one more value."""
        surprise = seconds - self._mean
        self._mean += _WEIGHT * surprise
        self._deviation += _WEIGHT * (abs(surprise) - self._deviation)


class TimerLateness(Ewma):
    """Learns how late wake-ups come: event loops round timers, and are busy when one is due.

    Args:
        resolution: Of the timers (seconds): what is believed before any has been late.
    """

    __slots__ = ("due", "late", "resolution")
    certainty: ClassVar = 2.0

    def __init__(self, resolution: float = TIMER_RESOLUTION) -> None:
        super().__init__(resolution)
        self.resolution = resolution
        self.late = self.nearly_all
        """Seconds by which nearly no wake-up has been later than it was asked for."""
        self.due = inf
        """When the next wake-up was asked for (seconds)."""

    def woke(self, now: float) -> None:
        """It is `due` or later."""
        self.saw(now - self.due)
        self.late = self.nearly_all
        self.due = inf


class QueueingDelay:
    """Learns the time from a request's bytes to its turn, and from its batch's end to its answer.

    An accepted request needs time for both, or its answer comes too late: in overload nearly every
    accepted request is answered at the last moment.
    """

    __slots__ = ("_last", "_noticed", "_way_in", "_way_out")

    def __init__(self) -> None:
        self._way_in, self._way_out = Ewma(), Ewma()
        self._last = 0.0
        self._noticed = -inf

    def __repr__(self) -> str:
        return f"<QueueingDelay in {self._way_in!r}, out {self._way_out!r}>"

    def noticed(self, unread: float, read: float, now: float) -> None:
        """A request's turn has come.

        Args:
            unread: Seconds from its bytes to their being read.
            read: Seconds since then.
            now: The present (seconds).
        """
        self._last, self._noticed = read, now
        self._way_in.saw(unread + read)

    def answered(self, taken: float) -> None:
        """An answer is about to leave, so many seconds after the end of its batch."""
        self._way_out.saw(taken)

    def allowance(self, patience: float) -> float:
        """Seconds within which nearly every answer is out after the end of its batch.

        As long as on the way in, if that is longer: the loop has as much to do for either.

        Args:
            patience: Seconds that a client waits.
        """
        return min(
            max(self._way_in.nearly_all, self._way_out.nearly_all), _LARGEST_SHARE * patience
        )

    def left(self, patience: float, unread: float, now: float) -> float:
        """Seconds for which a request that is being read can wait for the end of its batch.

        It will wait for its turn as long as the last one did, unless that was longer ago.

        Args:
            patience: Seconds that its client waits in all.
            unread: Seconds of them that are over.
            now: The present (seconds).
        """
        read = self._last if now - self._noticed <= self._last else 0.0
        return patience - unread - read - self.allowance(patience)
