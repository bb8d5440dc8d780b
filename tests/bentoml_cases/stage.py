"""Where the stories are told: a model, its callers, and the live dispatcher in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from adaptive_batching.core import Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.workers.local import TaskWorkers
from tests.virtual_time import run_virtually


class Model:
    """Takes `fixed + per_item * n` seconds, remembers its batches, and doubles.

    An item is a number, or a list of numbers that counts as many.
    """

    def __init__(self, fixed: float, per_item: float) -> None:
        self.fixed = fixed
        self.per_item = per_item
        self.batches: list[list[Any]] = []
        self.pause = 0.0
        """Seconds that the next batch takes longer."""
        self.busy = 0.0
        """Seconds of all batches together."""

    def duration(self, size: int) -> float:
        """Seconds that a batch of that many items takes."""
        return self.fixed + self.per_item * size

    def slow_down(self, factor: float) -> None:
        """Take that much longer from the next batch on."""
        self.fixed *= factor
        self.per_item *= factor

    async def __call__(self, items: list[Any]) -> list[Any]:
        self.batches.append(items)
        pause, self.pause = self.pause, 0.0
        took = self.duration(sum(map(count, items))) + pause
        self.busy += took
        await asyncio.sleep(took)
        return [double(item) for item in items]


def count(item: Any) -> int:
    """How many items it counts as."""
    return len(item) if isinstance(item, list) else 1


def double(item: Any) -> Any:
    """What the model makes of it."""
    return [2 * number for number in item] if isinstance(item, list) else 2 * item


@dataclass
class End:
    """What became of a call."""

    called: float
    """Seconds on the loop's clock."""
    took: float
    """Seconds."""
    error: Exception | None

    @property
    def answered(self) -> bool:
        """Whether it was, which is in time: the dispatcher answers nobody late."""
        return self.error is None


class Client:
    """Calls a dispatcher, checks the answers and times them."""

    def __init__(self, dispatcher: Dispatcher[Any, Any]) -> None:
        self.dispatcher = dispatcher

    async def call(self, item: Any) -> End:
        """One call; what became of it."""
        loop = asyncio.get_running_loop()
        called = loop.time()
        error = None
        try:
            assert await self.dispatcher.submit(item, size=count(item)) == double(item)
        except Exception as raised:  # noqa: BLE001  the story looks at it
            error = raised
        return End(called, loop.time() - called, error)

    async def burst(self, items: int) -> list[End]:
        """Many at once."""
        return await asyncio.gather(*(self.call(item) for item in range(items)))

    async def stream(self, rate: float, seconds: float) -> list[End]:
        """So many a second, evenly, whether they are answered or not."""
        calls = []
        for item in range(round(rate * seconds)):
            calls.append(asyncio.ensure_future(self.call(item)))
            await asyncio.sleep(1 / rate)
        return await asyncio.gather(*calls)


def tell(
    story: Callable[[Client], Awaitable[None]],
    model: Any,
    max_batch_size: int,
    max_latency: float,
    *,
    workers: int = 1,
    policy: str = "cork",
) -> None:
    """Tell a story in virtual time."""

    async def main() -> None:
        async with Dispatcher[Any, Any](
            TaskWorkers(model, workers),
            Limits(max_batch_size, max_latency),
            policy=policy,
            clock=asyncio.get_running_loop().time,
        ) as dispatcher:
            await story(Client(dispatcher))

    run_virtually(main())
