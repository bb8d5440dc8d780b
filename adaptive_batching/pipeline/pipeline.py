"""Lets single items flow through stages that batch, within one budget of time."""

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, Generic, Self, TypeVar

from adaptive_batching.core import JobOutcome
from adaptive_batching.dispatcher import Dispatcher, call_from_thread, run_in_lanes
from adaptive_batching.errors import WrongEventLoop
from adaptive_batching.keywords import names_keywords
from adaptive_batching.pipeline.execution import Execution
from adaptive_batching.pipeline.stage import Stage, Wrap
from adaptive_batching.pipeline.stats import PipelineStats
from adaptive_batching.side_by_side import all_to_the_end, side_by_side
from adaptive_batching.units import Duration, patience_of, seconds_of
from adaptive_batching.workers.interface import Restartable

T = TypeVar("T")
R = TypeVar("R")


@names_keywords
class Pipeline(Generic[T, R]):
    """Stages in sequence: `await pipeline(x)` sends x through all of them and returns the result.

    An item goes on as soon as its own batch has ended, so the stages work at the same time and
    each forms its own batches. What a stage raises for an item is raised to its caller, and the
    later stages never see it.

    `max_latency` is one budget. Each stage has to be done with an item by the item's deadline less
    what the later stages are predicted to need, so an item that can't be in time is refused at the
    entrance rather than at the end.

    Args:
        stages: What every item goes through, in this order.
        max_latency: Seconds from call to result, or a text such as `"100ms"`; None promises
            nothing.
        clock: Monotonic seconds.
        wraps: What each stage's handler is put into, as in `Stage.make_workers`; worker processes
            import it.

    Raises:
        TypeError: Something is no stage.
        ValueError: There is none, or `max_latency` is not positive.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        *,
        max_latency: Duration | None = None,
        clock: Callable[[], float] = time.monotonic,
        wraps: Sequence[Wrap | None] = (),
    ) -> None:
        if not stages:
            raise ValueError("stages: expected at least one, got none")
        for stage in stages:
            if not isinstance(stage, Stage):
                raise TypeError(f"stages: expected Stage(...), got {stage!r}")
        self.max_latency = patience_of(max_latency)
        self.stages = tuple(stages)
        self.dispatchers: tuple[Dispatcher[Any, Any], ...] = tuple(
            Dispatcher(
                stage.make_workers(wrap),
                stage.limits,
                policy=stage.policy,
                clock=clock,
                observers=stage.observers,
                idempotent=stage.idempotent,
                next_batch_first=True,  # an answer is work for the stage after it
            )
            for stage, wrap in zip_longest(stages, wraps)
        )
        self._clock = clock
        self._execution: Execution | None = None

    def __repr__(self) -> str:
        return f"<Pipeline {' | '.join(map(str, self.stages))}>"

    async def __call__(
        self, item: T, /, *, max_latency: Duration | None = None, key: Hashable = None
    ) -> R:
        """Send one item through all stages.

        The first call starts the workers; its `max_latency` counts from when they are ready.

        Args:
            item: What the first stage gets.
            max_latency: Seconds for this call. Of this and the pipeline's, the smaller holds.
            key: Only equal keys share a batch, in every stage.

        Raises:
            QueueFull: The stages hold as much as they may.
            Refused: It could not have been answered in time, or the pipeline is closing.
            DeadlineExceeded: Its deadline came between or within the stages.
            Exception: What a stage raised for it.
        """
        result: R = await self._current().take(item, self._patience(max_latency), key)
        return result

    async def call_all(
        self,
        items: Sequence[T],
        *,
        max_latency: Duration | None = None,
        keys: Sequence[Hashable] | None = None,
    ) -> list[R | BaseException]:
        """Send several items through all stages: either all are let in, or none.

        They join batches as those of single calls do. `map` takes more of them than have room.

        Args:
            items: What the first stage gets.
            max_latency: Seconds for all of them. Of this and the pipeline's, the smaller holds.
            keys: That of each item: only equal keys share a batch. None gives them none.

        Returns:
            The result of each item, or the exception that it ended with, in their order.

        Raises:
            QueueFull: The stages hold as much as they may, or would with these.
            Refused: One could not have been answered in time, or the pipeline is closing.
            ValueError: There are more or fewer keys than items.
        """
        keys = [None] * len(items) if keys is None else keys
        if len(keys) != len(items):
            raise ValueError(f"keys: expected one for each of {len(items)} items, got {len(keys)}")
        return await self._current().take_all(items, self._patience(max_latency), keys)

    def call_from_thread(
        self, item: T, /, *, max_latency: Duration | None = None, key: Hashable = None
    ) -> R:
        """Send one item of another thread through all stages, and wait there for its result.

        The event loop has to run elsewhere: enter `async with pipeline:` on it first.

        Raises:
            NoEventLoop: It does not run, or ended before it answered.
            ReentrantCall: This is its own thread, which would wait for itself.
            Exception: As calls do.
        """
        loop = None if self._execution is None else self._execution.loop
        return call_from_thread(loop, lambda: self(item, max_latency=max_latency, key=key))

    async def map(self, items: Iterable[T]) -> list[R]:
        """Run many items and return their results in the order of the items.

        Enough are under way at any time to keep every stage busy; the rest wait in the iterable.
        One that the entrance refuses goes in when another is through. The first other error ends it
        and cancels what is under way.
        """
        width = sum(each.saturation for each in self.dispatchers)
        return await run_in_lanes(self.__call__, items, min(width, self.stages[0].max_queue))

    @property
    def ready(self) -> bool:
        """Whether the workers of all stages have been ready, so that it can answer."""
        return all(each.ready for each in self.dispatchers)

    def stats(self) -> PipelineStats:
        """What happened so far and what is under way."""
        execution = self._execution
        requests = {
            outcome: execution.requests[outcome] if execution else 0 for outcome in JobOutcome
        }
        stages = tuple(each.stats() for each in self.dispatchers)
        return PipelineStats(requests, execution.under_way if execution else 0, stages)

    async def start(self) -> None:
        """Start the workers of all stages and wait until they are ready.

        Raises:
            WorkerStartError: A worker could not load its handler.
            HandlerNotFound: A worker process can't import it.
        """
        if self._execution is not None and self._execution.closing:
            self._execution = None
        self._current()
        try:
            await side_by_side(each.start() for each in self.dispatchers)
        except BaseException:
            await self.aclose(0.0)
            raise

    async def restart_workers(self) -> None:
        """Put a fresh process in the place of each worker, one after the other; no call fails.

        Raises:
            WorkerStartError: One could not be started: the workers that are left go on.
        """
        for each in self.dispatchers:
            if isinstance(each.workers, Restartable):
                await each.restart_workers()

    def flush(self) -> None:
        """From now on let what waits leave as soon as a worker is free."""
        for each in self.dispatchers:
            each.flush()

    async def aclose(self, timeout: Duration | None = None) -> None:  # noqa: ASYNC109  a drain
        """Let what is under way go through all stages, up to `timeout` seconds; stop the workers.

        What is left then fails with `Draining` if no stage has worked on it, or else `WorkerLost`.
        """
        execution = self._execution
        if execution is None or execution.loop.is_closed():
            return
        execution.closing = True
        self.flush()
        seconds = None if timeout is None else seconds_of("timeout", timeout)
        try:
            async with asyncio.timeout(seconds):
                await execution.emptied()
        except TimeoutError:
            seconds = 0.0
        await all_to_the_end(each.aclose(seconds) for each in self.dispatchers)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _patience(self, max_latency: Duration | None) -> float:
        """The seconds of a call."""
        return patience_of(max_latency, self.max_latency)

    def _current(self) -> Execution:
        """The execution of this loop; a new one if there was none or its loop has ended."""
        loop = asyncio.get_running_loop()
        execution = self._execution
        if execution is None or execution.loop.is_closed():
            execution = self._execution = Execution(
                loop, self.stages, self.dispatchers, self._clock
            )
        elif execution.loop is not loop:
            msg = "this pipeline runs its batches on another event loop, which still runs"
            advice = "`await asyncio.to_thread(pipeline.call_from_thread, item)`"
            raise WrongEventLoop(f"{msg}: from this one use {advice}")
        return execution
