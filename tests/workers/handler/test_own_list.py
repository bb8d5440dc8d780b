"""The list that a handler gets is its own: what it makes of it is no other's answer."""

import asyncio

import pytest

from adaptive_batching import Processes, Threads, batched
from adaptive_batching.errors import BatchFunctionError
from tests.workers import handlers

TEXTS = ["not a number", "1", "2", "3"]


async def endings(handler, workers, sizes):
    """What becomes of the texts: results and exceptions."""
    function = batched(max_batch_size=4, workers=workers(1), sizes=sizes)(handler)
    async with function:
        return await asyncio.gather(*map(function, TEXTS), return_exceptions=True)


@pytest.mark.parametrize("workers", [Threads, Processes])
@pytest.mark.parametrize("sizes", [None, [4]])
async def test_a_handler_may_empty_its_list(workers, sizes):
    """Each item has its own answer, and the one that is no number its own error."""
    failed, *answers = await endings(handlers.Drains, workers, sizes)
    assert (type(failed), answers) == (ValueError, [2, 4, 6])


@pytest.mark.parametrize("workers", [Threads, Processes])
@pytest.mark.parametrize("sizes", [None, [4]])
async def test_a_result_too_many_is_an_error_though_the_list_has_grown_as_well(workers, sizes):
    """No item gets the answer of another; the one that is no number has its own error."""
    failed, *others = await endings(handlers.Fills, workers, sizes)
    assert (type(failed), {*map(type, others)}) == (ValueError, {BatchFunctionError})
