"""How many items a stage may hold."""

import asyncio
from math import inf


class BackPressure:
    """Places for a stage's items, waiting or at work; who finds none waits, first come first in.

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
