"""How late wake-ups come: event loops round their timers, and are busy when one is due."""

from math import inf
from typing import ClassVar

from adaptive_batching.core.estimators.delays import Ewma

_PRIOR = 0.5e-3  # seconds; asyncio rounds waits up to a millisecond


class TimerLateness(Ewma):
    """The lateness of wake-ups."""

    __slots__ = ("due",)
    certainty: ClassVar = 2.0
    late = Ewma.nearly_all

    def __init__(self) -> None:
        super().__init__(_PRIOR)
        self.due = inf
        """When the next wake-up was asked for (seconds)."""

    def woke(self, now: float) -> None:
        """It is `due` or later."""
        self.saw(now - self.due)
        self.due = inf
