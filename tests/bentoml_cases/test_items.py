"""Requests of several items: A6, B10."""

import asyncio

import pytest

from adaptive_batching import batched
from adaptive_batching.errors import JobTooLarge, Overloaded
from tests.bentoml_cases.stage import Client, End, Model, tell
from tests.virtual_time import run_virtually


def test_a6_lists_of_items_share_full_batches() -> None:
    """A6: three callers with 7, 7 and 6 items fill two batches of 10; each gets his own, in order.

    `map` brings each item as a request of its own, so there is nothing to split.
    """
    batches = []

    @batched(max_batch_size=10)
    async def double(numbers: list[int]) -> list[int]:
        batches.append(len(numbers))
        await asyncio.sleep(0.1)
        return [2 * number for number in numbers]

    async def main() -> None:
        lists = list(range(7)), list(range(100, 107)), list(range(200, 206))
        answers = await asyncio.gather(*(double.map(each) for each in lists))
        assert answers == [[2 * number for number in each] for each in lists]
        await double.aclose()

    run_virtually(main())
    assert batches == [10, 10]


def test_a6_a_request_of_several_items_stays_whole() -> None:
    """A6: of 7, 7 and 6 items no two fit into 10, so each leaves alone and none is torn.

    BentoML splits them 7 + 3 and 4 + 6: the caller then waits for two batches, and when one of them
    fails or is cancelled the other was in vain.
    """
    model = Model(0.1, 0.01)

    async def story(client: Client) -> None:
        calls = (client.call(list(range(items))) for items in (7, 7, 6))
        assert all(end.answered for end in await asyncio.gather(*calls))

    tell(story, model, max_batch_size=10, max_latency=60.0)
    assert [[len(item) for item in batch] for batch in model.batches] == [[7], [7], [6]]


@pytest.mark.parametrize("items", [11, 35])
def test_a6_more_items_than_a_batch_may_hold(items: int) -> None:
    """A6: it is refused with what was expected, and not computed in part."""
    model = Model(0.1, 0.01)

    async def story(client: Client) -> None:
        end = await client.call([0] * items)
        assert isinstance(end.error, JobTooLarge)
        assert f"at most max_batch_size=10 items, got {items}" in str(end.error)

    tell(story, model, max_batch_size=10, max_latency=60.0)
    assert model.batches == []


def test_b10_large_requests_after_small_ones() -> None:
    """B10: 70 requests of one item, then 20 of 16 at once, within a second: ten can be in time.

    All ten are, and of the second lot the others are refused before the queue is half done.
    BentoML counts requests, not items: it answered ten in time and two late, and dropped eight
    after 0.97 s.
    """
    model = Model(0.01, 0.005)  # 0.17 s for 32 items, so five batches in time
    lots: list[list[End]] = []

    async def story(client: Client) -> None:
        for item in range(70):
            await client.call([item])
        for _ in range(2):
            calls = (client.call(list(range(16))) for _ in range(20))
            lots.append(await asyncio.gather(*calls))

    tell(story, model, max_batch_size=32, max_latency=1.0)
    first, second = lots
    assert all(sum(map(len, batch)) <= 32 for batch in model.batches)
    assert sum(end.answered for end in first) >= 10
    assert sum(end.answered for end in second) >= 10
    refused = [end for end in second if not end.answered]
    assert all(isinstance(end.error, Overloaded) for end in refused)
