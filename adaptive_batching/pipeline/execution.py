"""A pipeline on one event loop: the items between its entrance and its end."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from math import inf
from typing import Any

from adaptive_batching.core import JobOutcome, Station, Tandem
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.dispatcher.calls import job_outcome, weigh
from adaptive_batching.errors import (
    DeadlineExceeded,
    Draining,
    NoWorkers,
    Overloaded,
    QueueFull,
    WorkerLost,
)
from adaptive_batching.pipeline.back_pressure import BackPressure, InFlightItem
from adaptive_batching.pipeline.stage import Stage
from adaptive_batching.side_by_side import side_by_side


class Execution:
    """Takes items from stage to stage, until it is closed.

    An item keeps its place in a stage until it has one in the next: a stage that is full fills the
    one before it, and so on up to the entrance.

    Args:
        loop: The running loop.
        stages: What every item goes through.
        dispatchers: One for each stage.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stages: Sequence[Stage],
        dispatchers: Sequence[Dispatcher[Any, Any]],
        clock: Callable[[], float],
    ) -> None:
        self.loop = loop
        self.closing = False
        self.under_way = 0
        self.requests: Counter[JobOutcome] = Counter()
        self._stages = stages
        self._dispatchers = dispatchers
        self._cost_of = [stage.cost_of for stage in stages]
        self._clock = clock
        self._limits = [BackPressure(stage.max_queue) for stage in stages]
        self._tandem = Tandem()
        self._entering: set[InFlightItem] = (
            set()
        )  # have a place in the first stage, and wait not there yet
        self._started = False
        self._emptied: asyncio.Future[None] | None = None

    async def take(self, value: Any, max_latency: float, key: Hashable) -> Any:
        """Take one item through all stages; whatever happens, it is counted once."""
        [item] = await self._let_in([value], max_latency, [key])
        return await self._through_all(item)

    async def take_all(
        self, values: Sequence[Any], max_latency: float, keys: Sequence[Hashable]
    ) -> list[Any]:
        """Let several items in, or none, and take them through all stages.

        Returns:
            The result of each, or the exception that it ended with.
        """
        entered = await self._let_in(values, max_latency, keys)
        try:
            tasks = map(self._through_all, entered)
            return await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for item in entered:  # a task that is cancelled before its first step ends nothing
                self._end(item, JobOutcome.CANCELLED)

    async def emptied(self) -> None:
        """Wait until nothing is under item."""
        if self.under_way:
            if self._emptied is None:
                self._emptied = self.loop.create_future()
            await asyncio.shield(self._emptied)

    async def _let_in(
        self, values: Sequence[Any], max_latency: float, keys: Sequence[Hashable]
    ) -> list[InFlightItem]:
        """Give items their places in the first stage; where one finds none, none keeps its own."""
        self.under_way += len(values)
        entered: list[InFlightItem] = []
        try:
            await self._begin()
            now = self._clock()
            for value, key in zip(values, keys, strict=True):
                entered.append(await self._enter(value, key, now + max_latency, now))
        except BaseException as error:
            for item in entered:
                self._end(item, job_outcome(error))
            self._count(job_outcome(error), len(values) - len(entered))
            raise
        return entered

    async def _begin(self) -> None:
        if self.closing:
            raise Draining("this pipeline is closed and takes no more items")
        if not self._started:
            await side_by_side(each.start() for each in self._dispatchers)
            self._started = True

    async def _enter(self, value: Any, key: Hashable, deadline: float, now: float) -> InFlightItem:
        tight = self._admit(deadline, now)
        entrance = self._limits[0]
        await entrance.enter(inf)  # there is room, so it returns at once
        item = InFlightItem(value, key, deadline, entrance, tight=tight)
        self._entering.add(item)
        return item

    def _end(self, item: InFlightItem, outcome: JobOutcome) -> None:
        """Leave the last place and count the item; one that has ended is left as it is."""
        if item.place is not None:
            self._entering.discard(item)
            item.move_to(None)
            late = outcome is JobOutcome.DONE and self._clock() > item.deadline
            self._count(JobOutcome.EXPIRED if late else outcome, 1)

    def _count(self, outcome: JobOutcome, items: int) -> None:
        self.requests[outcome] += items
        self.under_way -= items
        if not self.under_way and self._emptied is not None:
            self._emptied.set_result(None)
            self._emptied = None

    def _admit(self, deadline: float, now: float) -> bool:
        """Whether it is expected to be in time; a refusal if not, or if there is no room."""
        entrance = self._limits[0]
        if entrance.full:
            stations = self._stations(now)
            wait = max(station.opens for station in stations) or stations[0].batch
            msg = f"stage {self._stages[0]} holds {entrance.places} items already"
            raise QueueFull(msg, retry_after=wait)
        if deadline < inf:
            return self._tandem.admit(self._stations(now), deadline, now)
        self._tandem.let_in(now)
        return True

    async def _through_all(self, item: InFlightItem) -> Any:
        """Go through the stages and end."""
        try:
            value = item.value
            for number in range(len(self._dispatchers)):
                value = await self._through(number, item, value)
        except BaseException as error:
            self._end(item, job_outcome(error))
            raise
        self._end(item, JobOutcome.DONE)
        return value

    async def _through(self, number: int, item: InFlightItem, value: Any) -> Any:
        """Go through one stage, once it has room."""
        if number:
            await self._move_on(number, item)
        left = self._left(number, item.deadline, tight=item.tight)
        self._entering.discard(item)
        try:
            cost = weigh(self._cost_of[number], value)
            return await self._dispatchers[number].submit(value, left, item.key, cost=cost)
        except (Overloaded, NoWorkers) as refusal:
            if not number:
                raise
            msg = f"stage {self._stages[number]} could not answer it in time: {refusal}"
            raise DeadlineExceeded(msg) from refusal  # work was done for it: not refused
        except Draining as refusal:
            if not number:
                raise
            msg = f"the pipeline was closed before its turn in stage {self._stages[number]}"
            raise WorkerLost(msg) from refusal

    async def _move_on(self, number: int, item: InFlightItem) -> None:
        limit = self._limits[number]
        try:
            await limit.enter(item.deadline - self._clock())
        except TimeoutError:
            stage = self._stages[number]
            raise DeadlineExceeded(f"stage {stage} had no room for it in time") from None
        item.move_to(limit)

    def _left(self, number: int, deadline: float, *, tight: bool) -> float:
        """Seconds that a stage may take."""
        if deadline == inf:
            return inf
        due = self._tandem.latest_finish(number, deadline) if tight else deadline
        now = self._clock()
        if due <= now:
            stage, needed = self._stages[number], deadline - due
            if deadline <= now:
                raise DeadlineExceeded(f"its deadline came before its turn in stage {stage}")
            has = f"stage {stage} has {deadline - now:.3f} s left"
            raise DeadlineExceeded(f"{has}, and the later ones need {needed:.3f} s")
        return due - now

    def _stations(self, now: float) -> list[Station]:
        """What is predicted of each stage; an item in an earlier one is ahead in the later ones."""
        stations = []
        ahead, upstream = len(self._entering), 0
        for dispatcher, limit in zip(self._dispatchers, self._limits, strict=True):
            stations.append(dispatcher.station(now, ahead))
            ahead = upstream = upstream + limit.inside
        return stations
