"""Nobody waits for a running batch beyond his own deadline; the batch goes on for the others."""

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, cast

from adaptive_batching.core import Batch, Job
from adaptive_batching.dispatcher.calls import Call
from adaptive_batching.errors import DeadlineExceeded


class Deadlines:
    """One timer for each running batch that somebody's deadline may come under.

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
        self._timers: dict[Batch, asyncio.TimerHandle] = {}

    def watch(self, batch: Batch) -> None:
        """It begins to run."""
        self._arm(batch, batch.jobs)

    def forget(self, batch: Batch) -> None:
        """It has ended."""
        timer = self._timers.pop(batch, None)
        if timer is not None:
            timer.cancel()

    def _arm(self, batch: Batch, jobs: Sequence[Job]) -> None:
        due = min(job.deadline for job in jobs)
        if due < inf:
            self._timers[batch] = self._loop.call_at(due, self._expire, batch, due)

    def _expire(self, batch: Batch, due: float) -> None:
        calls = cast("list[Call[Any, Any]]", batch.jobs)
        expired = [call for call in calls if call.deadline <= due and not call.future.done()]
        for call in expired:
            patience = call.deadline - call.arrived
            call.fail(DeadlineExceeded(f"its batch still ran after {patience:.3f} s"))
        self._on_expired(expired)
        later = [job for job in batch.jobs if job.deadline > due]
        if later:
            self._arm(batch, later)
