"""Places for items in a stage: one that is full fills the stage before it."""

import asyncio
from collections.abc import Hashable
from math import inf
from typing import Any


class BackPressure:
    """Places for a stage's items, waiting or at work; without one it waits, first come first in.

    Args:
        places: How many; it belongs to the event loop that first waits for one.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.inside = 0
        """Items that are here."""
        self._free = asyncio.Semaphore(places)

    @property
    def full(self) -> bool:
        """Whether one that comes now would have to wait."""
        return self._free.locked()

    async def enter(self, seconds: float) -> None:
        """Wait for a place, at most so long.

        Raises:
            TimeoutError: There was none.
        """
        if self.full:
            async with asyncio.timeout(None if seconds == inf else seconds):
                await self._free.acquire()
        else:
            await self._free.acquire()  # returns at once
        self.inside += 1

    def leave(self) -> None:
        """Make way for the next."""
        self.inside -= 1
        self._free.release()


class InFlightItem:
    """An item on its way through the stages.

    Args:
        value: What the first stage gets.
        key: Only equal keys share a batch.
        deadline: When it has to be through (seconds).
        place: Where it has a place.
        tight: Whether each stage has to leave the later ones the time that they need.

    Attributes:
        place: Where it has a place now; None once it has ended.
    """

    __slots__ = ("deadline", "key", "place", "tight", "value")

    def __init__(
        self, value: Any, key: Hashable, deadline: float, place: BackPressure, *, tight: bool
    ) -> None:
        self.value = value
        self.key = key
        self.deadline = deadline
        self.tight = tight
        self.place: BackPressure | None = place

    def move_to(self, place: BackPressure | None) -> None:
        """Leave a place for the next, or for none."""
        if self.place is not None:
            self.place.leave()
        self.place = place
