"""Whether the event loop keeps up."""

import asyncio
import time

from adaptive_batching.instrumentation.loop_lag import LoopLag
from tests.marshal.client import until


async def test_a_loop_that_stands_still_is_seen() -> None:
    """A handler that computes on it for 0.3 s makes a timer late by about as much (F19)."""
    lag = LoopLag()
    lag.start()
    try:
        await until(lambda: sum(lag.seconds.counts))
        time.sleep(0.3)  # noqa: ASYNC251  that is the point
        await until(lambda: lag.seconds.total > 0.15)
    finally:
        lag.stop()


async def test_once_stopped_it_looks_no_more() -> None:
    """Nothing keeps the loop from ending; twice is as good as once."""
    lag = LoopLag()
    lag.stop()
    lag.start()
    lag.stop()
    lag.stop()
    await asyncio.sleep(0.15)
    assert not sum(lag.seconds.counts)
