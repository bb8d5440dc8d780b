"""Plain threads that call a batched function whose event loop runs elsewhere."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from adaptive_batching import Pipeline, Stage, batched
from adaptive_batching.errors import Draining, NoEventLoop, ReentrantCall, WrongEventLoop
from tests.workers.conditions import until

PATIENCE = 600.0  # seconds; only a failing test waits that long


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


@batched(max_batch_size=8, policy="window:10s")
async def double(numbers: list[int]) -> list[int | Exception]:
    return [ValueError(f"negative: {n}") if n < 0 else 2 * n for n in numbers]


async def test_threads_share_a_batch(threads: ThreadPoolExecutor) -> None:
    """Eight threads fill one batch, and each gets its own result or error."""
    async with double:
        calls = [threads.submit(double.call_from_thread, n) for n in range(-1, 7)]
        ends = await asyncio.gather(*map(asyncio.wrap_future, calls), return_exceptions=True)
        assert isinstance(ends[0], ValueError)
        assert ends[1:] == [2 * n for n in range(7)]
        assert double.stats().batches == 1


async def test_without_a_loop_and_on_the_loop_itself() -> None:
    """Both are named errors, where waiting would be for ever."""

    @batched()
    async def echo(items: list[int]) -> list[int]:
        return items

    with pytest.raises(NoEventLoop, match="async with"):
        await asyncio.to_thread(echo.call_from_thread, 1)
    async with echo:
        assert await asyncio.to_thread(echo.call_from_thread, 1) == 1
        with pytest.raises(ReentrantCall, match="await it here"):
            echo.call_from_thread(1)
    with pytest.raises(Draining):
        await asyncio.to_thread(echo.call_from_thread, 1)


def test_another_event_loop_is_told_how_to_call() -> None:
    """What the error says is what helps, of batched functions and of pipelines."""

    async def echo(items: list[int]) -> list[int]:
        return items

    function, pipeline = batched()(echo), Pipeline[int, int]([Stage(echo, 4)])

    async def elsewhere() -> None:
        with pytest.raises(WrongEventLoop, match=r"to_thread\(function.call_from_thread, item\)"):
            await function(1)
        assert await asyncio.to_thread(function.call_from_thread, 1) == 1
        with pytest.raises(WrongEventLoop, match=r"to_thread\(pipeline.call_from_thread, item\)"):
            await pipeline(1)
        assert await asyncio.to_thread(pipeline.call_from_thread, 1) == 1

    async def main() -> None:
        async with function, pipeline:
            await asyncio.to_thread(asyncio.run, elsewhere())

    asyncio.run(main())


def test_a_loop_that_is_stopped_but_not_closed(threads: ThreadPoolExecutor) -> None:
    """Who waits is told; and when it runs again, his call leaves the queue."""
    loop = asyncio.new_event_loop()
    runs = threads.submit(loop.run_forever)

    def on_loop(coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE)

    on_loop(double.start())
    call = threads.submit(double.call_from_thread, 1)
    on_loop(until(lambda: double.stats().queued == 1))
    loop.call_soon_threadsafe(loop.stop)
    runs.result(PATIENCE)
    with pytest.raises(NoEventLoop, match="before it answered"):
        call.result(PATIENCE)
    loop.run_until_complete(until(lambda: double.stats().queued == 0))
    loop.run_until_complete(double.aclose())
    loop.close()


@pytest.mark.parametrize("begun", [True, False])
def test_a_loop_that_ends_meanwhile(threads: ThreadPoolExecutor, *, begun: bool) -> None:
    """Who waits for it is told, whether his call had begun or not; nobody waits for ever."""
    asked = threading.Event()

    @batched()
    async def endless(items: list[int]) -> list[int]:
        asked.set()
        await asyncio.Event().wait()
        return items

    async def end_early() -> Future[int]:
        await endless.start()
        call = threads.submit(endless.call_from_thread, 1)
        if begun:
            assert await asyncio.to_thread(asked.wait, PATIENCE)
        return call

    call = asyncio.run(end_early())
    with pytest.raises(NoEventLoop):
        call.result(PATIENCE)
