"""Many items at once, but not all of them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def run_in_lanes(
    call: Callable[[T], Awaitable[R]], items: Iterable[T], width: int
) -> list[R]:
    """Call with each item and return the results in the order of the items.

    `width` calls are under way at a time; the rest wait in the iterable, so it may be long. The
    first error ends it and cancels what is under way.
    """
    numbered = zip(count(), items, strict=False)
    results: dict[int, R] = {}

    async def lane() -> None:
        for index, item in numbered:
            results[index] = await call(item)

    lanes = [asyncio.ensure_future(lane()) for _ in range(width)]
    try:
        await asyncio.gather(*lanes)
    finally:
        for each in lanes:
            each.cancel()
    return [results[index] for index in range(len(results))]
