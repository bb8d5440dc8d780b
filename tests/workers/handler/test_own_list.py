"""A handler may change the list that it gets; no item gets the answer of another."""

import asyncio

import pytest

from adaptive_batching import Processes, Threads, batched
from adaptive_batching.errors import BatchFunctionError
from tests.workers import handlers

TEXTS = ["not a number", "1", "2", "3"]
PLACES = [("", Threads(1)), ("", Processes(1)), ("Later", None)]


async def endings(handler, workers, sizes):
    """What becomes of the texts: results and exceptions."""
    function = batched(max_batch_size=4, workers=workers, sizes=sizes)(handler)
    async with function:
        return await asyncio.gather(*map(function, TEXTS), return_exceptions=True)


@pytest.mark.parametrize(("later", "workers"), PLACES)
@pytest.mark.parametrize("sizes", [None, [4]])
async def test_a_handler_may_empty_its_list(later, workers, sizes):
    """Each item has its own answer, and the one that is no number its own error."""
    failed, *answers = await endings(getattr(handlers, f"Drains{later}"), workers, sizes)
    assert (type(failed), answers) == (ValueError, [2, 4, 6])


@pytest.mark.parametrize(("later", "workers"), PLACES)
@pytest.mark.parametrize("sizes", [None, [4]])
async def test_a_result_too_many_is_an_error_though_the_list_has_grown(later, workers, sizes):
    """No item gets the answer of another; the one that is no number has its own error."""
    failed, *others = await endings(getattr(handlers, f"Fills{later}"), workers, sizes)
    assert (type(failed), {*map(type, others)}) == (ValueError, {BatchFunctionError})
