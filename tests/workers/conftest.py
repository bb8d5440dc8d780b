"""Pools for the tests, closed at their end."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from adaptive_batching.workers.placement import Processes, make_workers

# Before 3.14, pytest-asyncio's first look at the current loop makes one that nobody ever closes,
# and the collector complains in whatever test it runs; after this, that look finds none.
asyncio.set_event_loop(None)


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
