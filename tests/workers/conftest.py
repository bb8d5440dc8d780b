"""Pools for the tests, closed at their end."""

from contextlib import AsyncExitStack

import pytest

from adaptive_batching.workers.placement import Processes, make_workers


@pytest.fixture
async def started():
    """Start a pool for a handler, with the arguments of `Processes`, and close it afterwards."""
    async with AsyncExitStack() as stack:

        async def start(handler, wrap=None, on_change=lambda: None, **arguments):
            pool = make_workers(handler, Processes(**arguments), wrap)
            stack.push_async_callback(pool.aclose)
            await pool.start(on_change)
            return pool

        yield start
