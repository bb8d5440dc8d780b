"""Where BentoML's dispatcher breaks, and the tests that its first versions had.

Each story names its case and the figure measured on BentoML at the same settings. All of them run
on the live dispatcher in virtual time, with the default policy.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from adaptive_batching.core import JobOutcome, Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import DeadlineExceeded, Overloaded
from adaptive_batching.workers.local import TaskWorkers
from tests.virtual_time import run_virtually

EARLY_MODELS = [(0.010, 0.004), (0.005, 0.005)]  # fixed and per item, of BentoML 0.13's own tests


class Model:
    """Takes `fixed + per_item * n` seconds, remembers its batches, and doubles."""

    def __init__(self, fixed: float, per_item: float) -> None:
        self.fixed = fixed
        self.per_item = per_item
        self.batches: list[list[int]] = []
        self.pause = 0.0

    def duration(self, size: int) -> float:
        return self.fixed + self.per_item * size

    async def __call__(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        pause, self.pause = self.pause, 0.0
        await asyncio.sleep(self.duration(len(items)) + pause)
        return [2 * item for item in items]


class Client:
    """Calls a dispatcher and times the answers."""

    def __init__(self, dispatcher: Dispatcher[int, int]) -> None:
        self.dispatcher = dispatcher

    async def timed(self, item: int) -> float:
        """Seconds until the answer."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert await self.dispatcher.submit(item) == 2 * item
        return loop.time() - begun

    async def burst(self, count: int) -> list[Any]:
        """Many at once; what became of each."""
        calls = (self.dispatcher.submit(item) for item in range(count))
        return await asyncio.gather(*calls, return_exceptions=True)


def tell(
    story: Callable[[Client], Awaitable[None]],
    model: Model,
    max_batch_size: int,
    max_latency: float,
) -> None:
    """Tell a story in virtual time."""

    async def main() -> None:
        async with Dispatcher[int, int](
            TaskWorkers(model, 1),
            Limits(max_batch_size, max_latency),
            clock=asyncio.get_running_loop().time,
        ) as dispatcher:
            await story(Client(dispatcher))

    run_virtually(main())


def test_b1_a_burst_after_single_requests() -> None:
    """B1: 70 serial requests, then 100 at once, with 1 s for each: nobody is refused.

    BentoML learned from one batch size only, predicted 10 s for 100 items, and refused 82 of 100 on
    an idle server; and again 82 of the next 100.
    """

    async def story(client: Client) -> None:
        for item in range(70):
            await client.timed(item)
        for _ in range(2):
            assert await client.burst(100) == [2 * item for item in range(100)]

    tell(story, Model(0.099, 0.001), max_batch_size=100, max_latency=1.0)


@pytest.mark.parametrize("max_latency", [1.0, 5.0])
def test_b2_a_burst_at_the_start(max_latency: float) -> None:
    """B2: 100 requests on a cold server: nobody is refused. BentoML 0.13 refused 99 of them."""

    async def story(client: Client) -> None:
        assert await client.burst(100) == [2 * item for item in range(100)]

    model = Model(0.05, 0.002)  # 0.114 s for 32
    tell(story, model, max_batch_size=32, max_latency=max_latency)
    assert [len(batch) for batch in model.batches] == [32, 32, 32, 4]


def test_b3_lone_requests_after_an_overload() -> None:
    """B3: after 10 s of overload, lone requests on an idle server take 2 T(1) at the most (p99).

    BentoML's wait feeds on itself: at the default max_latency of 60 s they took 31 s, and after 120
    of them still 26 s.
    """
    model = Model(0.05, 0.005)  # 133 a second in batches of 20
    latencies: list[float] = []

    async def story(client: Client) -> None:
        flood = []
        for item in range(1870):
            flood.append(asyncio.ensure_future(client.dispatcher.submit(item)))
            await asyncio.sleep(1 / 187)
        await asyncio.gather(*flood)
        for item in range(120):
            await asyncio.sleep(0.5)
            latencies.append(await client.timed(item))

    tell(story, model, max_batch_size=20, max_latency=60.0)
    assert max(len(batch) for batch in model.batches) == 20
    assert sorted(latencies)[118] <= 2 * model.duration(1)


@pytest.mark.parametrize("slow", [1, 8])
def test_b7_one_pause_of_the_machine(slow: int) -> None:
    """B7: one batch of 50 takes a second longer: predictions stay within 20 %.

    BentoML's least squares predicted T(1) = 0.090 s for 0.022 s when it was a small batch, and
    T(100) = 1.54 s for 0.22 s when it was a large one.
    """
    model = Model(0.02, 0.002)

    async def story(client: Client) -> None:
        for batch in range(50):
            size = batch * 5 % 8 + 1  # 1 to 8, mixed
            if batch == (40 if slow == 1 else 43):
                assert size == slow
                model.pause = 1.0
            await client.burst(size)
        stats = client.dispatcher.stats()
        for size in (1, 8, 100):
            predicted = stats.fixed + stats.per_item * size
            assert predicted == pytest.approx(model.duration(size), rel=0.2)

    tell(story, model, max_batch_size=100, max_latency=60.0)


@pytest.mark.parametrize(("fixed", "per_item"), EARLY_MODELS)
def test_a1_batching_pays(fixed: float, per_item: float) -> None:
    """A1: 100 calls at once take less than 100 batches of one, in order (BentoML 0.13's test)."""
    model = Model(fixed, per_item)

    async def story(client: Client) -> None:
        loop = asyncio.get_running_loop()
        assert await client.burst(100) == [2 * item for item in range(100)]
        assert loop.time() < 100 * model.duration(1)
        assert loop.time() == model.duration(100)

    tell(story, model, max_batch_size=1000, max_latency=300.0)
    assert len(model.batches) < 100


@pytest.mark.parametrize(("fixed", "per_item"), EARLY_MODELS)
def test_a2_preheating(fixed: float, per_item: float) -> None:
    """A2: after 4 batches of 1 to 5 the fixed part is right within 99 % + 1 ms (BentoML 0.13)."""
    model = Model(fixed, per_item)

    async def story(client: Client) -> None:
        for size in (1, 2, 3, 4):
            await client.burst(size)
        stats = client.dispatcher.stats()
        assert stats.batches == 4
        assert abs(stats.fixed - fixed) <= 0.99 * fixed + 1e-3

    tell(story, model, max_batch_size=1000, max_latency=2000.0)


@pytest.mark.parametrize(("fixed", "per_item"), EARLY_MODELS)
def test_a2_the_model_is_learned(fixed: float, per_item: float) -> None:
    """A2: both parts are right within 10 % + 1 ms after 1,000 batches (BentoML 0.13); here 100."""
    model = Model(fixed, per_item)

    async def story(client: Client) -> None:
        for cycle in range(100):
            await client.burst(cycle % 5 + 1)
        stats = client.dispatcher.stats()
        assert stats.batches == 100
        assert abs(stats.fixed - fixed) <= 0.1 * fixed + 1e-3
        assert abs(stats.per_item - per_item) <= 0.1 * per_item + 1e-3

    tell(story, model, max_batch_size=1000, max_latency=2000.0)


@pytest.mark.parametrize(("fixed", "per_item"), EARLY_MODELS)
def test_a3_overload(fixed: float, per_item: float) -> None:
    """A3: 3,000 at once with 2 s for each: all are answered or refused within 3 s, some answered.

    Having seen batches of 5 only, it may not send 1,000 at once: they take twice what they have.
    """
    model = Model(fixed, per_item)

    async def story(client: Client) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(4):
            await client.burst(5)
        begun = loop.time()
        answers = await client.burst(3000)
        assert loop.time() - begun < 3.0
        good = [answer for answer in answers if isinstance(answer, int)]
        refused = [answer for answer in answers if isinstance(answer, Overloaded)]
        expired = [answer for answer in answers if isinstance(answer, DeadlineExceeded)]
        assert len(good) + len(refused) + len(expired) == 3000
        assert len(good) >= 1

    tell(story, model, max_batch_size=1000, max_latency=2.0)


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


def test_a8_batches_of_one() -> None:
    """A8: max_batch_size=1 is a batch size like any other.

    BentoML forbids it since its metrics crashed on it.
    """
    model = Model(0.01, 0.001)

    async def story(client: Client) -> None:
        assert await client.burst(50) == [2 * item for item in range(50)]

    tell(story, model, max_batch_size=1, max_latency=60.0)
    assert [len(batch) for batch in model.batches] == [1] * 50
