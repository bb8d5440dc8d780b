"""Waiting for what nobody announces."""

import asyncio


async def until(condition):
    """Return once it holds, looking again and again."""
    while not condition():  # noqa: ASYNC110  what it waits for has no event
        await asyncio.sleep(0.001)
