"""Each call is told its outcome once."""

import asyncio
from typing import Any

from adaptive_batching.dispatcher.calls import LEFT, CallInSteps
from adaptive_batching.errors import Draining


async def _endless() -> int:
    await asyncio.Event().wait()
    return 1


async def _one() -> int:
    return 1


async def test_steps_that_something_else_cancels_end_with_an_error() -> None:
    """So that what counts the call counts it no longer."""
    before, told = asyncio.all_tasks(), list[Any]()
    call = CallInSteps(_endless(), told.append)
    [task] = asyncio.all_tasks() - before
    task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert told == [call]
    assert isinstance(call.outcome, Draining)


async def test_a_caller_that_leaves_is_told_nothing() -> None:
    """And one that leaves too late changes nothing."""
    told: list[Any] = []
    left, ended = CallInSteps(_endless(), told.append), CallInSteps(_one(), told.append)
    left.leave()
    await asyncio.wait([ended._task])
    await asyncio.sleep(0)
    ended.leave()
    assert told == [ended]
    assert (left.outcome, ended.outcome) == (LEFT, 1)
