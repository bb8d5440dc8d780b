"""Where jobs come from: blocks of arrivals, checked in turn, or answers that call again.

The engine reads a list with a sentinel at its end; here that list is filled again, so that traffic
of any length takes the memory of one block.
"""

from bisect import insort
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice, repeat
from math import inf, isnan
from typing import NamedTuple, TypeVar

import numpy as np

from adaptive_batching.core import Job, TenantJob
from adaptive_batching.simulation.clients.closed_loop import ClosedLoop
from adaptive_batching.simulation.clients.tenants import NOBODY, Claim
from adaptive_batching.simulation.kernel.history import NoticedJob
from adaptive_batching.simulation.traffic.traces.format import Request

T = TypeVar("T")

_BLOCK = 16_384  # arrivals


class _Block(NamedTuple):
    """Arrivals in order of time, a column for each quantity."""

    times: list[float]
    sizes: list[int]
    keys: list[Hashable]
    max_latencies: list[float | None]
    costs: list[float]


class ArrivalStream:
    """The next arrivals, always at least the next one, and what each of them brings.

    Args:
        arrivals: When they come (seconds), in order; or requests as a trace has them; or users who
            call again.
        sizes: Items of each; 1 if left out.
        keys: The batch key of each, or more of them than come; none if left out.
        max_latencies: Seconds from each arrival to its deadline, NaN where it is the usual one.
        claims: The tenant of each, or more of them than come; none if left out.
        costs: What the items of each cost (`Job.cost`), or more of them than come; nothing if left
            out.

    Raises:
        ValueError: The arrivals are not in order, a number is impossible or the lengths differ.
    """

    def __init__(
        self,
        arrivals: Iterable[float] | Iterable[Request] | ClosedLoop,
        sizes: Iterable[int] | None = None,
        keys: Iterable[Hashable] | None = None,
        max_latencies: Iterable[float] | None = None,
        claims: Iterable[Claim] | None = None,
        costs: Iterable[float] | None = None,
    ) -> None:
        self.times: list[float] = [inf]  # the sentinel saves a bounds check for every job
        self.sizes: list[int] = []
        self.come = 0
        """Arrivals of the present block that have come."""
        self.plain = keys is None and claims is None and costs is None
        """Whether there is no more to know of those of the present block than time and size."""
        self._keys: list[Hashable] = []
        self._max_latencies: list[float | None] = []
        self._costs: list[float] = []
        self._loop = arrivals if isinstance(arrivals, ClosedLoop) else None
        self._claimed = claims is not None
        self._claims = iter(repeat(NOBODY) if claims is None else claims)
        self._lots = iter(repeat(None) if keys is None else keys)
        self._cost_lots = iter(repeat(0.0) if costs is None else costs)
        if isinstance(arrivals, ClosedLoop):
            self._blocks: Iterator[_Block] = iter(())
            for time in arrivals.begin():  # in one block: an answered user comes back among them
                self._call_again(time)
        else:
            self._blocks = _blocks(arrivals, sizes, keys, max_latencies, costs)
            self.refill()

    @property
    def next(self) -> float:
        """When the next one comes (seconds); `inf` if none is to come."""
        return self.times[self.come]

    def take(self, max_latency: float, delay: float = 0.0) -> Job:
        """The next one.

        Args:
            max_latency: Seconds that it is ready to wait if it does not say otherwise.
            delay: By which it is noticed later than it comes (seconds).
        """
        index = self.come
        time, size, key = self.times[index], self.sizes[index], self._keys[index]
        own, cost = self._max_latencies[index], self._costs[index]
        patience = max_latency if own is None else own
        if delay:
            job: Job = NoticedJob(time, delay, size, patience, key, next(self._claims), cost)
        elif self._claimed:
            tenant, priority = next(self._claims)
            due = time + patience
            job = TenantJob(time, size, due, key, cost, tenant=tenant, priority=priority)
        else:
            job = Job(time, size, time + patience, key, cost)
        self.come += 1
        if self.next == inf:
            self.refill()
        return job

    def refill(self) -> bool:
        """Forget what has come and fetch the next block, in place; False if nothing follows yet."""
        block = next(self._blocks, _NOBODY)
        if block.times:
            named = len(block.times) - block.keys.count(None)
            told = any(block.max_latencies) or any(block.costs)
            self.plain = not (named or self._claimed or told)
        self.times[:-1] = block.times
        self.sizes[:] = block.sizes
        self._keys[:] = block.keys
        self._max_latencies[:] = block.max_latencies
        self._costs[:] = block.costs
        self.come = 0
        return bool(block.times)

    def answered(self, jobs: int, now: float) -> None:
        """So many users know now how they fared; those of a closed loop will call again."""
        if self._loop is not None:
            for time in self._loop.again(jobs, now):
                self._call_again(time)

    def _call_again(self, time: float) -> None:
        insort(self.times, time, lo=self.come)
        self.sizes.append(1)
        self._keys.append(next(self._lots))
        self._max_latencies.append(None)
        self._costs.append(_cost(next(self._cost_lots)))


_NOBODY = _Block([], [], [], [], [])


def _blocks(
    arrivals: Iterable[float] | Iterable[Request],
    sizes: Iterable[int] | None,
    keys: Iterable[Hashable] | None,
    max_latencies: Iterable[float] | None,
    costs: Iterable[float] | None,
) -> Iterator[_Block]:
    each_size, each_key = iter(() if sizes is None else sizes), iter(() if keys is None else keys)
    each_patience = iter(() if max_latencies is None else max_latencies)
    each_cost = iter(() if costs is None else costs)
    newest = -inf
    come = 0
    for block in _cut(arrivals):
        times, brought, named, patience, costly = block
        _check(times, newest)
        newest = times[-1]
        number = len(times)
        come += number
        if sizes is not None:
            brought = [int(size) for size in _so_many("sizes", each_size, number, come)]
        if keys is not None:
            named = _so_many("keys", each_key, number, come)
        if max_latencies is not None:
            own = _so_many("max_latencies", each_patience, number, come)
            patience = [_patience(seconds) for seconds in own]
        if costs is not None:
            costly = [_cost(cost) for cost in _so_many("costs", each_cost, number, come)]
        yield _Block(times, brought, named, patience, costly)
    if next(each_size, None) is not None:
        raise ValueError(f"sizes: expected one for each of {come} arrivals, got more")


def _so_many(name: str, each: Iterator[T], number: int, come: int) -> list[T]:
    """The next of one column, as many as there are arrivals."""
    some = list(islice(each, number))
    if len(some) != number:
        got = come - number + len(some)
        raise ValueError(f"{name}: expected one for each of {come} arrivals, got {got}")
    return some


def _patience(seconds: float) -> float | None:
    if isnan(seconds):
        return None
    if not seconds > 0:
        raise ValueError(f"max_latencies: expected positive seconds or NaN, got {seconds}")
    return float(seconds)


def _cost(cost: float) -> float:
    if not 0 <= cost < inf:
        raise ValueError(f"costs: expected finite numbers of 0 or more, got {cost}")
    return float(cost)


def _cut(arrivals: Iterable[float] | Iterable[Request]) -> Iterator[_Block]:
    if isinstance(arrivals, np.ndarray):
        for first in range(0, len(arrivals), _BLOCK):
            yield _bare(arrivals[first : first + _BLOCK].astype(float).tolist())
        return
    rest = iter(arrivals)
    while some := list(islice(rest, _BLOCK)):
        if isinstance(some[0], Request):
            columns = (list(column) for column in zip(*some, strict=True))
            times, sizes, keys, max_latencies, costs = columns
            yield _Block(times, sizes, keys, max_latencies, [cost or 0.0 for cost in costs])
        else:
            yield _bare(np.array(some, float).tolist())


def _bare(times: list[float]) -> _Block:
    nothing = [None] * len(times)
    return _Block(times, [1] * len(times), [*nothing], [*nothing], [0.0] * len(times))


def _check(block: list[float], newest: float) -> None:
    times = np.array([newest, *block])
    if not np.isfinite(times[1:]).all():
        raise ValueError("arrivals: expected finite seconds, got NaN or infinity")
    if (times[1:] < times[:-1]).any():
        later = int(np.argmax(times[1:] < times[:-1]))
        msg = f"arrivals: expected times in order, got {block[later]} after {times[later]}"
        raise ValueError(msg)
