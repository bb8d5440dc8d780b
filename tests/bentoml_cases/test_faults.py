"""What goes wrong for one may not go wrong for others: A7, B8."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from adaptive_batching.core import JobOutcome
from tests.bentoml_cases.stage import Client, Model, tell

USER: ContextVar[str] = ContextVar("user", default="nobody")


def test_a7_cancelled_callers() -> None:
    """A7: queued ones are skipped, a batch of none is not run, a running one keeps its results.

    Of 8 callers cancelled in the queue, BentoML computed 8, and swallowed 8 CancelledErrors.
    """
    model = Model(0.1, 0.0)

    async def story(client: Client) -> None:
        def call(item: int) -> asyncio.Task[int]:
            return asyncio.ensure_future(client.dispatcher.submit(item))

        running = [call(item) for item in (0, 1, 2)]
        await asyncio.sleep(0.05)
        gone = [call(item) for item in range(10, 18)]
        await asyncio.sleep(0)
        for task in [running[1], *gone]:
            task.cancel()
        await asyncio.wait(gone)
        assert all(task.cancelled() for task in gone)
        assert await asyncio.gather(running[0], running[2]) == [0, 4]
        assert running[1].cancelled()
        await asyncio.sleep(1.0)
        assert model.batches == [[0, 1, 2]]  # the rest of the queue had gone
        busy = call(3)
        await asyncio.sleep(0.05)
        head, second = call(4), call(5)
        await asyncio.sleep(0)
        head.cancel()
        assert await asyncio.gather(busy, second) == [6, 10]
        assert model.batches == [[0, 1, 2], [3], [5]]
        stats = client.dispatcher.stats()
        assert (stats.queued, stats.running) == (0, 0)
        assert stats.requests[JobOutcome.CANCELLED] == 1 + 8 + 1

    tell(story, model, max_batch_size=8, max_latency=60.0)


def test_b8_a_timeout_of_the_callers_own() -> None:
    """B8 (E5): it ends his wait as TimeoutError; BentoML turned it into an error of its own."""

    async def story(client: Client) -> None:
        busy = asyncio.ensure_future(client.call(0))
        await asyncio.sleep(0.05)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.dispatcher.submit(1)
        assert (await busy).answered

    tell(story, Model(0.1, 0.0), max_batch_size=8, max_latency=60.0)


def test_b8_the_first_callers_context_stays_his() -> None:
    """B8 (E4): of eight users none is seen by the batch, nor by those that come later.

    BentoML's controller was created within the first request, so each batch ever ran as that user.
    """
    seen = []

    async def model(items: list[int]) -> list[int]:
        seen.append(USER.get())
        await asyncio.sleep(0.1)
        return [2 * item for item in items]

    async def story(client: Client) -> None:
        async def as_user(number: int) -> None:
            USER.set(f"user {number}")
            await asyncio.sleep(0.03 * number)
            assert (await client.call(number)).answered
            assert USER.get() == f"user {number}"

        await asyncio.gather(*map(as_user, range(8)))

    tell(story, model, max_batch_size=3, max_latency=60.0)
    assert len(seen) >= 3
    assert set(seen) == {"nobody"}


def test_b8_a_poisoned_item_fails_alone() -> None:
    """B8 (E6): seven neighbours are answered; he gets the error that stands in his place.

    BentoML failed all eight with one and the same exception object.
    """
    poison = ValueError("poisoned")

    async def model(items: list[int]) -> list[Any]:
        await asyncio.sleep(0.1)
        return [poison if item == 5 else 2 * item for item in items]

    async def story(client: Client) -> None:
        ends = await client.burst(8)
        assert [end.error for end in ends] == [None] * 5 + [poison] + [None] * 2

    tell(story, model, max_batch_size=8, max_latency=60.0)


def raise_an_error(items: list[int]) -> list[int]:
    raise TypeError("not today")


def cancel_it(items: list[int]) -> list[int]:
    raise asyncio.CancelledError


def exit_the_program(items: list[int]) -> list[int]:
    raise SystemExit(1)


def answer_too_few(items: list[int]) -> list[int]:
    return items[1:]


def answer_with_a_number(items: list[int]) -> Any:
    return 7


@pytest.mark.parametrize(
    "fault",
    [raise_an_error, cancel_it, exit_the_program, answer_too_few, answer_with_a_number],
)
def test_b8_no_fault_of_a_batch_keeps_its_permit(fault: Callable[[list[int]], Any]) -> None:
    """B8 (E20): after 20 batches that went wrong, the only worker still answers.

    BentoML lost its semaphore for ever when a batch could not be packed.
    """
    wrong = True

    async def model(items: list[int]) -> list[int]:
        await asyncio.sleep(0.01)
        return fault(items) if wrong else [2 * item for item in items]

    async def story(client: Client) -> None:
        nonlocal wrong
        for _ in range(20):
            assert not any(end.answered for end in await client.burst(3))
        wrong = False
        assert all(end.answered for end in await client.burst(20))
        stats = client.dispatcher.stats()
        assert (stats.queued, stats.running) == (0, 0)

    tell(story, model, max_batch_size=8, max_latency=60.0)


@pytest.mark.parametrize("size", ["4", None, (3, 2), -1])
def test_b8_a_size_that_is_no_count_is_told_to_its_caller_alone(size: Any) -> None:
    """B8 (E20): a DataFrame's shape for a size hung BentoML; here the next caller is answered."""

    async def story(client: Client) -> None:
        with pytest.raises((TypeError, ValueError)):
            await client.dispatcher.submit(1, size=size)
        ends = await client.burst(20)
        assert all(end.answered for end in ends)
        assert client.dispatcher.stats().queued == 0

    tell(story, Model(0.01, 0.0), max_batch_size=8, max_latency=60.0)
