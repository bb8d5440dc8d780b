"""What Ray's actors deliver through us, beside direct calls of such actors."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import ray

from adaptive_batching.batching import batched
from adaptive_batching.bench.harness.contest import take_turns
from adaptive_batching.bench.harness.loops import loop_name
from adaptive_batching.bench.harness.report import Report, Row, Verdict, ratio
from adaptive_batching.workers.elsewhere import RayWorkers

_ITEM = bytes(64)
_BATCH = 16  # items: 1 kB
_ACTORS = 2
_REQUIRED = 0.8  # of direct calls
_PLACEMENT = RayWorkers(_ACTORS, num_cpus=0)

Seconds = Callable[[], Awaitable[float]]


class Echo:
    """A model that costs nothing."""

    def __call__(self, items: list[bytes]) -> list[bytes]:
        """Return the items."""
        return items


async def measure(*, quick: bool) -> Report:
    """Compare round trips of one batch, and as many batches as the actors can take."""
    batches, rounds = (20, 2) if quick else (200, 9)
    _join()
    direct = [ray.remote(Echo).options(num_cpus=0).remote() for _ in range(_ACTORS)]
    ours = batched(max_batch_size=_BATCH, workers=_PLACEMENT)(Echo)
    async with ours:
        trips = await _compare(
            partial(_our_trips, ours, batches), partial(_direct_trips, direct[0], batches), rounds
        )
        floods = await _compare(
            partial(_our_flood, ours, batches), partial(_direct_flood, direct, batches), rounds
        )
    rows: list[Row] = [
        _row("round trip of a batch", trips, 1e6 / batches, "µs"),
        _row(f"{_ACTORS} actors kept busy", floods, 1e6 / batches, "µs/batch"),
    ]
    speeds = [1.0 / ratio(*trips), 1.0 / ratio(*floods)]
    verdicts = [
        Verdict(what, speed, "at least", _REQUIRED, "of direct calls")
        for what, speed in zip(("round trips a second", "throughput"), speeds, strict=True)
    ]
    title = f"ray: batches of {_BATCH} items of {len(_ITEM)} bytes, {loop_name()}"
    return Report(title, rows, verdicts)


def _join() -> None:
    """Join the cluster that RAY_ADDRESS names, or start one here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not ray.is_initialized():
        ray.init(include_dashboard=False, logging_level="ERROR")


async def _compare(ours: Seconds, direct: Seconds, rounds: int) -> tuple[list[float], list[float]]:
    contestants = {"ours": ours, "direct": direct}
    await take_turns(contestants, 1)  # to warm up
    seconds = await take_turns(contestants, rounds)
    return seconds["ours"], seconds["direct"]


def _row(what: str, seconds: tuple[list[float], list[float]], scale: float, unit: str) -> Row:
    ours, direct = (median(each) * scale for each in seconds)
    return {"what": what, "ours": ours, "direct": direct, "unit": unit, "speed": direct / ours}


async def _our_trips(ours: Any, batches: int) -> float:
    begin = perf_counter()
    for _ in range(batches):
        await asyncio.gather(*(ours(_ITEM) for _ in range(_BATCH)))
    return perf_counter() - begin


async def _direct_trips(actor: Any, batches: int) -> float:
    items = [_ITEM] * _BATCH
    begin = perf_counter()
    for _ in range(batches):
        await actor.__call__.remote(items)
    return perf_counter() - begin


async def _our_flood(ours: Any, batches: int) -> float:
    begin = perf_counter()
    await ours.map([_ITEM] * (batches * _BATCH))
    return perf_counter() - begin


async def _direct_flood(actors: list[Any], batches: int) -> float:
    begin = perf_counter()
    await asyncio.gather(*(_direct_trips(actor, batches // len(actors)) for actor in actors))
    return perf_counter() - begin
