"""A pipeline on one event loop: the items between its entrance and its end."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from adaptive_batching.core import JobOutcome, Station, Tandem
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import (
    DeadlineExceeded,
    Draining,
    NoWorkers,
    Overloaded,
    QueueFull,
    WorkerLost,
)
from adaptive_batching.pipeline.stage import Stage
from adaptive_batching.pipeline.stats import outcome_of
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
        self._clock = clock
        self._limits = [BackPressure(stage.max_queue) for stage in stages]
        self._tandem = Tandem()
        self._started = False
        self._emptied: asyncio.Future[None] | None = None

    async def take(self, item: Any, max_latency: float) -> Any:
        """Take one item through all stages; whatever happens, it is counted once."""
        try:
            result = await self._enter(item, max_latency)
        except BaseException as error:
            self.requests[outcome_of(error)] += 1
            raise
        self.requests[JobOutcome.DONE] += 1
        return result

    async def emptied(self) -> None:
        """Wait until nothing is under way."""
        if self.under_way:
            if self._emptied is None:
                self._emptied = self.loop.create_future()
            await asyncio.shield(self._emptied)

    async def _enter(self, item: Any, max_latency: float) -> Any:
        if self.closing:
            raise Draining("this pipeline is closed and takes no more items")
        self.under_way += 1
        try:
            if not self._started:
                await side_by_side(each.start() for each in self._dispatchers)
                self._started = True
            now = self._clock()
            deadline = now + max_latency
            in_time = self._admit(deadline, now)
            return await self._through_all(item, deadline, tight=in_time)
        finally:
            self.under_way -= 1
            if not self.under_way and self._emptied is not None:
                self._emptied.set_result(None)
                self._emptied = None

    def _admit(self, deadline: float, now: float) -> bool:
        """Whether it is expected to be in time; a refusal if not, or if there is no room."""
        entrance = self._limits[0]
        if entrance.full:
            wait = max(station.free for station in self._stations(now))
            msg = f"stage {self._stages[0]} holds {entrance.places} items already"
            raise QueueFull(msg, retry_after=wait)
        if deadline < inf:
            return self._tandem.admit(self._stations(now), deadline, now)
        self._tandem.let_in(now)
        return True

    async def _through_all(self, item: Any, deadline: float, *, tight: bool) -> Any:
        """Go through the stages; if tight, each has to leave the later ones the time they need."""
        limit: BackPressure | None = None
        try:
            for number, dispatcher in enumerate(self._dispatchers):
                await self._move_on(number, deadline)
                if limit is not None:
                    limit.leave()
                limit = self._limits[number]
                left = self._left(number, deadline, tight=tight)
                try:
                    item = await dispatcher.submit(item, max_latency=left)
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
        finally:
            if limit is not None:
                limit.leave()
        return item

    async def _move_on(self, number: int, deadline: float) -> None:
        try:
            await self._limits[number].enter(deadline - self._clock())
        except TimeoutError:
            stage = self._stages[number]
            raise DeadlineExceeded(f"stage {stage} had no room for it in time") from None

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
        upstream = 0
        for dispatcher, limit in zip(self._dispatchers, self._limits, strict=True):
            stations.append(dispatcher.station(now, upstream))
            upstream += limit.inside
        return stations


class BackPressure:
    """Places for a stage's items, waiting or at work; without one it waits, first come first in.

    Args:
        places: How many; it belongs to the event loop that first waits for one.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.inside = 0
        """Items that are here."""
        self._free = asyncio.Semaphore(places)

    @property
    def full(self) -> bool:
        """Whether one that comes now would have to wait."""
        return self._free.locked()

    async def enter(self, seconds: float) -> None:
        """Wait for a place, at most so long.

        Raises:
            TimeoutError: There was none.
        """
        if self.full:
            async with asyncio.timeout(None if seconds == inf else seconds):
                await self._free.acquire()
        else:
            await self._free.acquire()  # returns at once
        self.inside += 1

    def leave(self) -> None:
        """Make way for the next."""
        self.inside -= 1
        self._free.release()
