"""Batches that a worker runs before its first request, which so waits for no cold start."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from adaptive_batching.errors import WorkerStartError
from adaptive_batching.exception_text import message_of, qualname_of
from adaptive_batching.workers.results import check_results, sequence_of

Durations = list[tuple[int, float]]
Run = Callable[[list[Any]], Awaitable[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a batch of examples took.

    Attributes:
        worker: The index of the worker.
        size: Items.
        duration: Seconds.
    """

    worker: int
    size: int
    duration: float


class WarmUp:
    """Runs examples in batches of 1, 2, 4 … and `max_batch_size`.

    Args:
        examples: Items, repeated as needed; without any, nothing is run (`NO_WARM_UP`).
        max_batch_size: Items in the largest batch.
    """

    def __init__(self, examples: Sequence[Any], max_batch_size: int) -> None:
        self._examples = tuple(examples)
        powers = range((max_batch_size - 1).bit_length())
        self._sizes = [*(2**power for power in powers), max_batch_size] if self._examples else []

    async def run(self, name: str, run: Run) -> Durations:
        """Run each size once; returns the sizes with their seconds.

        The first time they may compile, allocate and fill caches: run again to learn something.

        Args:
            name: What the worker is called in messages.
            run: Runs a batch on it.

        Raises:
            WorkerStartError: A batch failed, or an example in it.
        """
        return [(size, await self._time(size, name, run)) for size in self._sizes]

    async def _time(self, size: int, name: str, run: Run) -> float:
        clock = asyncio.get_running_loop().time
        batch = list(islice(cycle(self._examples), size))
        began = clock()
        try:
            results = check_results(await run(batch), size)
        except Exception as error:
            raise WorkerStartError(f"{name} failed {_said(size, error)}") from error
        duration = clock() - began
        for index, result in enumerate(results):
            if isinstance(result, BaseException):
                number = index % len(self._examples)
                msg = f"{name} failed on example {number} {_said(size, result)}"
                raise WorkerStartError(msg) from result
        return duration


NO_WARM_UP = WarmUp((), 1)


def make_warm_up(examples: Sequence[Any], max_batch_size: int) -> WarmUp:
    """A warm-up with these examples, or none if there are none; see `listed`."""
    return WarmUp(items, max_batch_size) if (items := listed(examples)) else NO_WARM_UP


def listed(examples: object) -> Sequence[Any]:
    """The items of a list of examples.

    Raises:
        TypeError: It is no list.
    """
    items = sequence_of(examples)
    if items is None:
        raise TypeError(f"examples: expected a list of items, got {examples!r}")
    return items


async def warmed(warm_up: WarmUp, name: str, run: Run) -> Durations:
    """Warm up, then see how long the sizes take; see `WarmUp.run`."""
    await warm_up.run(name, run)
    return faster(await warm_up.run(name, run), await warm_up.run(name, run))


def faster(one: Durations, other: Durations) -> Durations:
    """Each size's shorter duration: pauses make a run longer, nothing makes it shorter."""
    return [
        (size, min(first, second)) for (size, first), (_, second) in zip(one, other, strict=True)
    ]


def timings(of_each_worker: Iterable[Durations]) -> tuple[Timing, ...]:
    """What several workers took, by their index."""
    return tuple(
        Timing(worker, size, duration)
        for worker, durations in enumerate(of_each_worker)
        for size, duration in durations
    )


def _said(size: int, error: BaseException) -> str:
    said = f"{qualname_of(type(error))}: {message_of(error)}"
    return f"in its warm-up, in a batch of {size}: {said}"
