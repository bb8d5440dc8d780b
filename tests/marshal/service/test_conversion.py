"""A handler of values behind a list of JSON bodies."""

import asyncio
from math import nan

import numpy as np
import pytest

from adaptive_batching.errors import BatchFunctionError, MalformedBody
from adaptive_batching.marshal.service.conversion import Conversion


def test_a_malformed_item_never_reaches_the_handler():
    """The others are answered, each in its own place."""
    seen = []

    def double(numbers):
        seen.append(numbers)
        return [2 * number for number in numbers]

    first, bad, last = Conversion()(double)([b"1", b"NaN", b"3"])
    assert (first, last) == (b"2", b"6")
    assert isinstance(bad, MalformedBody)
    assert seen == [[1, 3]]


def test_nothing_good_means_no_call():
    """The handler is not bothered with an empty batch."""

    def unreachable(items):
        raise AssertionError

    assert [type(error) for error in Conversion()(unreachable)([b"", b"{"])] == [MalformedBody] * 2


def test_errors_stay_in_their_places():
    """An error that the handler put there is kept, one that its result earned is added."""
    unlucky = KeyError("unlucky")
    ok, kept, unwritable = Conversion()(lambda items: [1, unlucky, nan])([b"1", b"2", b"3"])
    assert ok == b"1"
    assert kept is unlucky
    assert isinstance(unwritable, BatchFunctionError)
    assert "float" in str(unwritable)


@pytest.mark.parametrize("results", [[1], [1, 2, 3], None, "ab", {1: 1, 2: 2}, iter([1, 2])])
def test_results_that_cannot_be_shared_out(results):
    """Wrong length or no list at all fails the batch: nobody gets another's answer."""
    with pytest.raises(BatchFunctionError):
        Conversion()(lambda items: results)([b"1", b"2"])


async def test_async_handlers_stay_async():
    """Also when only `__call__` is a coroutine function."""

    class Doubler:
        async def __call__(self, numbers):
            await asyncio.sleep(0)
            return [2 * number for number in numbers]

    assert await Conversion()(Doubler())([b"2"]) == [b"4"]
    assert (await Conversion()(Doubler().__call__)([b"3", b"?"]))[0] == b"6"


def test_an_array_is_a_list_of_its_rows():
    """What `model.predict` returns can be returned as it is."""
    assert Conversion()(np.array)([b"[1, 2]", b"[3, 4]"]) == [b"[1,2]", b"[3,4]"]
