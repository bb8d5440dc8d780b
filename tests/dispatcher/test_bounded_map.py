"""Many items at once, of which some may be too many."""

import asyncio

import pytest

from adaptive_batching.dispatcher import run_in_lanes
from adaptive_batching.errors import Overloaded, QueueFull
from tests.virtual_time import run_virtually


class Narrow:
    """Doubles in a second each; refuses whoever would be the fourth at a time."""

    def __init__(self) -> None:
        self.under_way = 0
        self.refused = 0

    async def __call__(self, number: int) -> int:
        if self.under_way == 3:
            self.refused += 1
            raise Overloaded("three are under way")
        self.under_way += 1
        await asyncio.sleep(1.0)
        self.under_way -= 1
        return 2 * number


def test_those_that_are_too_many_wait_for_the_others() -> None:
    """Nobody who sends many at once is refused because of himself, and no time is lost."""
    narrow = Narrow()

    async def story() -> None:
        begun = asyncio.get_running_loop().time()
        assert await run_in_lanes(narrow, range(30), 8) == list(range(0, 60, 2))
        assert asyncio.get_running_loop().time() - begun == pytest.approx(10.0)

    run_virtually(story())
    assert 5 <= narrow.refused <= 35  # about one try for each result, not one for each turn


def test_who_is_refused_for_others_is_told() -> None:
    """Where nothing of one's own is under way there is nothing to wait for."""

    async def full(number: int) -> int:
        raise QueueFull(f"no room for {number}")

    with pytest.raises(QueueFull, match="no room"):
        run_virtually(run_in_lanes(full, range(30), 8))
