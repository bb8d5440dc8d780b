"""Pools for the tests, closed at their end."""

from contextlib import AsyncExitStack

import pytest

from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.factory import make_workers
from tests.workers.external.scene import Scene
from tests.workers.fragile import Fragile


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


@pytest.fixture
def fragile(tmp_path, monkeypatch):
    """A handler's module that can be broken and mended."""
    monkeypatch.syspath_prepend(tmp_path)
    return Fragile(tmp_path)


@pytest.fixture
async def scene(tmp_path):
    """A socket for external workers, closed afterwards together with who connected."""
    async with AsyncExitStack() as stack:
        yield Scene(tmp_path / "model.sock", stack)
