"""What a call of `@batched` costs in process, beside the least that a batcher can do."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median
from time import perf_counter

from adaptive_batching.batching import batched
from adaptive_batching.bench.harness.contest import take_turns
from adaptive_batching.bench.harness.loops import loop_name
from adaptive_batching.bench.harness.report import Report, Row, Verdict, ratio

_CALLERS = (1, 64, 1000)
_MAX_BATCH_SIZE = 64
_REQUIRED = {64: 2.0, 1000: 2.0}  # times bare

Call = Callable[[int], Awaitable[int]]


class BareBatcher:
    """A queue, futures, one batch in flight: no limits, no deadlines, no errors, no end."""

    def __init__(self, handler: Callable[[list[int]], Awaitable[list[int]]]) -> None:
        self._handler = handler
        self._waiting: deque[tuple[int, asyncio.Future[int]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def submit(self, item: int) -> int:
        """Let one item join a batch and return its own result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = loop.create_task(self._run())
        return await future

    async def _run(self) -> None:
        waiting = self._waiting
        while waiting:
            calls = [waiting.popleft() for _ in range(min(len(waiting), _MAX_BATCH_SIZE))]
            results = await self._handler([item for item, _ in calls])
            for (_, future), result in zip(calls, results, strict=True):
                if not future.done():  # its caller has gone
                    future.set_result(result)
        self._running = None


async def no_op(items: list[int]) -> list[int]:
    """A model that costs nothing."""
    return items


async def measure(*, quick: bool) -> Report:
    """Compare both for one, many and very many callers."""
    calls, rounds = (2_000, 2) if quick else (40_000, 9)
    rows: list[Row] = []
    verdicts = []
    for callers in _CALLERS:
        ours, bare = await _compare(callers, max(1, calls // callers), rounds)
        times = ratio(ours, bare)
        rows.append(
            {
                "callers": callers,
                "@batched µs/call": median(ours) * 1e6,
                "bare µs/call": median(bare) * 1e6,
                "times bare": times,
            }
        )
        if callers in _REQUIRED:
            limit = _REQUIRED[callers]
            verdicts.append(Verdict(f"{callers} callers", times, "at most", limit, "times bare"))
    title = (
        f"calls: async no-op handler, max_batch_size {_MAX_BATCH_SIZE}, in process, {loop_name()}"
    )
    return Report(title, rows, verdicts)


async def _compare(callers: int, calls: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds per call, ours and bare, of every round."""
    ours = batched(max_batch_size=_MAX_BATCH_SIZE)(no_op)
    bare = BareBatcher(no_op)
    async with ours:
        contestants = {
            "ours": partial(_seconds_per_call, ours, callers, calls),
            "bare": partial(_seconds_per_call, bare.submit, callers, calls),
        }
        await take_turns(contestants, 1)  # to warm up
        seconds = await take_turns(contestants, rounds)
    return seconds["ours"], seconds["bare"]


async def _seconds_per_call(call: Call, callers: int, calls: int) -> float:
    async def caller() -> None:
        for number in range(calls):
            await call(number)

    begin = perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return (perf_counter() - begin) / (callers * calls)
