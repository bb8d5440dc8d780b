"""Many items at once, but not all of them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import TypeVar

from adaptive_batching.errors import Overloaded, QueueFull

T = TypeVar("T")
R = TypeVar("R")


async def run_in_lanes(
    call: Callable[[T], Awaitable[R]], items: Iterable[T], width: int
) -> list[R]:
    """Call with each item and return the results in the order of the items.

    `width` calls are under way at a time at the most; the rest wait in the iterable, so it may be
    long. An item that is refused while others of them are under way is one too many: it is called
    with again when one of those has its result. The first other error ends it and cancels what is
    under way.
    """
    numbered = zip(count(), items, strict=False)
    results: dict[int, R] = {}
    refused: deque[asyncio.Future[None]] = deque()
    under_way = width
    turn = asyncio.get_running_loop().create_future

    async def lane() -> None:
        nonlocal under_way
        for index, item in numbered:
            while index not in results:
                try:
                    results[index] = await call(item)
                except (Overloaded, QueueFull):
                    if under_way == 1:
                        raise
                    under_way -= 1
                    refused.append(turn())
                    await refused[-1]
            if refused:
                under_way += 1
                refused.popleft().set_result(None)
        under_way -= 1

    lanes = [asyncio.ensure_future(lane()) for _ in range(width)]
    try:
        await asyncio.gather(*lanes)
    finally:
        for each in lanes:
            each.cancel()
    return [results[index] for index in range(len(results))]
