"""Runs batches, each as a task with exactly one end, and fails jobs whose deadline comes first."""

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from operator import attrgetter
from typing import Any, cast

from adaptive_batching.core import Batch, Job
from adaptive_batching.dispatcher.calls import PENDING, Call
from adaptive_batching.dispatcher.observers import Observers
from adaptive_batching.dispatcher.outcome import Ended
from adaptive_batching.errors import DeadlineExceeded
from adaptive_batching.workers.interface import Workers

_deadline: Callable[[Job], float] = attrgetter("deadline")
_item: Callable[[Job], Any] = attrgetter("item")

# Turns of the loop from a deadline's timer to the failing of jobs: a late loop first takes an
# answer that has arrived. uvloop runs timers, and the callbacks that they schedule, before the
# reads of the same turn; the batch's task goes on in the turn after.
_TURNS = 3


class RunningBatches:
    """Runs batches on workers, and tells how each has ended.

    Args:
        loop: On which they run.
        context: In which they run, or in a copy of it where a companion goes along.
        workers: Run them.
        observers: Hears of those that leave.
        on_ended: Told of each batch once.
        on_expired: Told of jobs that were failed because their deadline came under way.
    """

    __slots__ = (
        "_context",
        "_deadlines",
        "_handler",
        "_loop",
        "_observers",
        "_on_ended",
        "_tasks",
        "_workers",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
        workers: Workers,
        observers: Observers,
        on_ended: Callable[[Batch, Ended], None],
        on_expired: Callable[[Sequence[Job]], None],
    ) -> None:
        self._loop = loop
        self._context = context
        self._workers = workers
        self._handler: str = getattr(workers, "handler", "")  # others check what they return
        self._observers = observers
        self._on_ended = on_ended
        self._deadlines = Deadlines(loop, on_expired)
        self._tasks: dict[Batch, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def launch(self, batch: Batch) -> None:
        """Start a batch on its worker, in a later turn of the loop.

        The loop's own task factory is not asked, for an eager one would run the batch here, and
        it could end within the very decision that released it.
        """
        context = None
        if self._observers.companions:
            context = self._context.copy()
            context.run(self._observers.batch_left, batch)
        task = asyncio.Task(self._run(batch), loop=self._loop, context=context)
        task.add_done_callback(partial(self._unbegun, batch))
        self._tasks[batch] = task
        self._deadlines.watch(batch, batch.jobs)

    async def stop(self) -> None:
        """Cancel them all; returns when each has ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, batch: Batch) -> None:
        """Run one batch; whatever happens, its end is reported, so that its permit returns."""
        try:
            answer = await self._workers.run(list(map(_item, batch.jobs)), batch.worker)
            ended = Ended.returned(batch, answer, self._handler)
        except BaseException as error:  # noqa: BLE001  no member may be left waiting
            ended = Ended.raising(batch, error)
        self._end(batch, ended)
        if ended.interrupted is not None:
            raise ended.interrupted

    def _unbegun(self, batch: Batch, _task: "asyncio.Task[None]") -> None:
        """End a batch whose task was cancelled before its first step, as `asyncio.run` may do."""
        if batch in self._tasks:
            self._end(batch, Ended.stopped(batch))

    def _end(self, batch: Batch, ended: Ended) -> None:
        del self._tasks[batch]
        self._deadlines.forget(batch)
        self._on_ended(batch, ended)


class Deadlines:
    """Fails jobs at their deadlines while their batch still runs: one timer for each batch.

    A late loop first takes an answer that has arrived, and the jobs get that.

    Args:
        loop: Whose timers.
        on_expired: Told of the jobs that have just been failed.
    """

    __slots__ = ("_loop", "_on_expired", "_timers")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_expired: Callable[[Sequence[Job]], None]
    ) -> None:
        self._loop = loop
        self._on_expired = on_expired
        self._timers: dict[Batch, asyncio.Handle] = {}

    def watch(self, batch: Batch, jobs: Sequence[Job]) -> None:
        """Fail these of its members at their deadlines, while it runs."""
        due = min(map(_deadline, jobs))
        if due < inf:
            self._timers[batch] = self._loop.call_at(due, self._expire, batch, due, _TURNS)

    def forget(self, batch: Batch) -> None:
        """A batch has ended: its time limit is lifted."""
        timer = self._timers.pop(batch, None)
        if timer is not None:
            timer.cancel()

    def _expire(self, batch: Batch, due: float, turns: int) -> None:
        if turns:
            self._timers[batch] = self._loop.call_soon(self._expire, batch, due, turns - 1)
            return
        calls = cast("list[Call[Any, Any]]", batch.jobs)
        expired = [call for call in calls if call.deadline <= due and call.outcome is PENDING]
        for call in expired:
            patience = call.deadline - call.arrived
            call.fail(DeadlineExceeded(f"its batch still ran after {patience:.3f} s"))
        self._on_expired(expired)
        later = [job for job in batch.jobs if job.deadline > due]
        if later:
            self.watch(batch, later)
