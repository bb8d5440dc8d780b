"""Several coroutines at a time, of which none is left running when one fails."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def side_by_side(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines; the first that fails cancels the others.

    Returns:
        Their results, in their order.

    Raises:
        Exception: The first failure, once all have ended.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in coroutines]
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        raise first from first.__cause__
    return [each.result() for each in tasks]


async def all_to_the_end(coroutines: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run coroutines to their ends, whichever of them fails.

    Raises:
        Exception: The first failure in their order, once all have ended.
    """
    results = await asyncio.gather(*coroutines, return_exceptions=True)
    for each in results:
        if isinstance(each, BaseException):
            raise each
