"""The baseline does what it is measured at."""

import asyncio

from adaptive_batching.bench.calls import BareBatcher


async def test_the_bare_batcher_batches():
    """Everybody gets the own result, in batches of up to 64, one at a time."""
    sizes = []
    running = 0

    async def double(items):
        nonlocal running
        running += 1
        assert running == 1
        sizes.append(len(items))
        await asyncio.sleep(0)
        running -= 1
        return [2 * item for item in items]

    batcher = BareBatcher(double)
    for _ in range(2):
        results = await asyncio.gather(*map(batcher.submit, range(100)))
        assert results == [2 * item for item in range(100)]
    assert sizes == [64, 36, 64, 36]
