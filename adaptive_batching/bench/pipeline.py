"""What three stages in processes reach together, beside the slowest of them alone."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from statistics import median
from time import perf_counter

from adaptive_batching.bench.harness.contest import take_turns
from adaptive_batching.bench.harness.loops import loop_name
from adaptive_batching.bench.harness.report import Report, Row, Verdict, ratio
from adaptive_batching.pipeline import Pipeline, Stage

_ITEM = bytes(1024)
_MAX_BATCH_SIZE = 64
_REQUIRED = 0.9  # of the slowest stage alone


class _Device:
    """Takes its time as a device does that computes elsewhere: it leaves the cores alone."""

    fixed = 0.0
    per_item = 0.0

    def __call__(self, items: list[bytes]) -> list[bytes]:
        time.sleep(self.fixed + self.per_item * len(items))
        return items


class Decode(_Device):
    """6 ms for 64 items."""

    fixed = 3e-3
    per_item = 0.05e-3


class Model(_Device):
    """16 ms for 64 items, the slowest."""

    fixed = 10e-3
    per_item = 0.1e-3


class Render(_Device):
    """6 ms for 64 items."""

    fixed = 3e-3
    per_item = 0.05e-3


class Nothing(_Device):
    """A stage that costs nothing, to see what the way through it costs."""

    def __call__(self, items: list[bytes]) -> list[bytes]:
        """Return them as they are."""
        return items


async def measure(*, quick: bool) -> Report:
    """Send items of 1 kB through, as many at a time as keep every stage busy."""
    items, rounds = (256, 1) if quick else (4096, 5)
    lines: dict[str, list[type[_Device]]] = {
        "the slowest stage alone": [Model],
        "pipeline of three": [Decode, Model, Render],
        "one stage of nothing": [Nothing],
        "three stages of nothing": [Nothing] * 3,
    }
    async with AsyncExitStack() as stack:
        contestants = {}
        for name, handlers in lines.items():
            line = await stack.enter_async_context(_line(handlers))
            contestants[name] = partial(_items_per_second, line, items)
        await take_turns(contestants, 1)  # to warm up: it learns how long its batches take
        taken = await take_turns(contestants, rounds)
    alone, three, one_nothing, nothing = taken.values()
    beside = [ratio(alone, alone), ratio(three, alone), ratio(one_nothing, one_nothing)]
    beside.append(ratio(nothing, one_nothing))
    rows: list[Row] = [
        {"stages, each in a process": name, "items/s": median(rates), "of its slowest": share}
        for (name, rates), share in zip(taken.items(), beside, strict=True)
    ]
    verdict = Verdict("pipeline", beside[1], "at least", _REQUIRED, "of its slowest stage alone")
    title = f"pipeline: items of 1 kB, max_batch_size {_MAX_BATCH_SIZE}, {loop_name()}"
    return Report(title, rows, [verdict])


@asynccontextmanager
async def _line(handlers: list[type[_Device]]) -> AsyncIterator[Pipeline[bytes, bytes]]:
    stages = [Stage(handler, max_batch_size=_MAX_BATCH_SIZE) for handler in handlers]
    async with Pipeline[bytes, bytes](stages) as pipeline:
        yield pipeline


async def _items_per_second(pipeline: Pipeline[bytes, bytes], items: int) -> float:
    begin = perf_counter()
    await pipeline.map([_ITEM] * items)
    return items / (perf_counter() - begin)
