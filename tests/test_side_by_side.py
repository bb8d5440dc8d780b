"""Several coroutines at a time, of which one fails."""

import asyncio

import pytest

from adaptive_batching.side_by_side import all_to_the_end, side_by_side


async def test_results_come_in_the_order_of_the_coroutines() -> None:
    """Whichever ends first."""
    first_ended = asyncio.Event()

    async def early() -> str:
        first_ended.set()
        return "early"

    async def late() -> str:
        await first_ended.wait()
        return "late"

    assert await side_by_side([late(), early()]) == ["late", "early"]


async def test_a_failure_cancels_the_others() -> None:
    """They have ended when it is raised, with the cause that it had."""
    ended = []

    async def fails() -> None:
        raise ValueError("first") from KeyError("why")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("waits")

    with pytest.raises(ValueError, match="first") as raised:
        await side_by_side([waits(), fails()])
    assert isinstance(raised.value.__cause__, KeyError)
    assert ended == ["waits"]


async def test_all_come_to_their_end_whichever_fails() -> None:
    """The first failure in their order is raised then."""
    failed, ended = asyncio.Event(), []

    async def fails() -> None:
        failed.set()
        raise ValueError("failed")

    async def goes_on() -> None:
        await failed.wait()
        ended.append("goes on")

    with pytest.raises(ValueError, match="failed"):
        await all_to_the_end([fails(), goes_on()])
    assert ended == ["goes on"]
