"""What is going to happen, in the order of time and, within an instant, of its announcement."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf


class EventQueue:
    """The heap of a simulation: ends of batches, and whatever else is known beforehand.

    Attributes:
        next: When the next thing happens (seconds); `inf` if nothing is to come.
    """

    __slots__ = ("_events", "_order", "next")

    def __init__(self) -> None:
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self.next = inf

    def at(self, time: float, happen: Callable[[float], None]) -> None:
        """Let something happen at an instant, which it is told."""
        heappush(self._events, (time, next(self._order), happen))
        self.next = self._events[0][0]

    def happen(self, now: float) -> None:
        """Let everything happen that was announced for this instant."""
        events = self._events
        while self.next == now:
            _, _, happen = heappop(events)
            self.next = events[0][0] if events else inf
            happen(now)
