"""Workers inside this process: coroutines on the event loop, and threads."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from adaptive_batching.errors import WorkerStartError
from adaptive_batching.exception_text import describe
from adaptive_batching.workers.handler.handler import build, is_async, name_of
from adaptive_batching.workers.handler.results import exit_as_error
from adaptive_batching.workers.handler.warm_up import (
    NO_WARM_UP,
    Durations,
    Timing,
    WarmUp,
    timings,
    warmed,
)
from adaptive_batching.workers.interface import Health
from adaptive_batching.workers.worker_index import number_thread

_Call = Callable[[list[Any]], Any]
_Wrap = Callable[[_Call], _Call]
_AsyncCall = Callable[[list[Any]], Coroutine[Any, Any, Sequence[Any]]]


class TaskWorkers:
    """Awaits an async handler on the event loop, `count` batches at a time.

    Args:
        handler: An async function, or a class whose `__call__` is async; it is built once.
        count: Batches at a time.
        wrap: Takes the handler, ready to be awaited, and returns what to await instead.
        warm_up: What it runs, once for all, before the first batch.
    """

    def __init__(
        self, handler: Any, count: int, wrap: _Wrap | None = None, warm_up: WarmUp = NO_WARM_UP
    ) -> None:
        if not is_async(handler):
            msg = f"expected an async handler, got {handler!r}: it needs threads or processes"
            raise TypeError(msg)
        self.handler = name_of(handler)
        """What it is called in messages."""
        self._handler = handler
        self._wrap = wrap
        self._count = count
        self._call: _AsyncCall = _not_started
        self._alive = 0
        self._warm_up = warm_up
        self._timings: tuple[Timing, ...] = ()

    @property
    def health(self) -> Health:
        """All well once they are started."""
        return Health(frozenset(range(self._alive)), self._count, warm_up=self._timings)

    async def start(self, on_change: Callable[[], None]) -> None:
        """Build the handler and warm it up; see `Workers.start`."""
        try:
            call, warm_up = build(self._handler)
            warmth = warm_up()
            if inspect.isawaitable(warmth):
                await warmth
            self._call = self._wrap(call) if self._wrap else call
        except Exception as error:
            raise _start_error(self._handler, error) from error
        self._timings = timings([await warmed(self._warm_up, name_of(self._handler), self._call)])
        self._alive = self._count
        on_change()

    def run(self, items: list[Any], _worker: int, /) -> Coroutine[Any, Any, Sequence[Any]]:
        """Run one batch: nothing but the handler's own coroutine; see `Workers.run`."""
        return self._call(items)

    async def aclose(self) -> None:
        """There is nothing to stop."""
        self._alive = 0


class ThreadWorkers:
    """Runs a handler in threads of its own, each batch on the one that it is for.

    A thread can't be stopped: a batch that hangs keeps its thread, and `aclose` waits for it.

    Args:
        handler: A function, or a class; it is built once in each thread.
        count: Threads.
        wrap: Takes the handler, ready to be called, and returns what to call instead.
        warm_up: What each thread runs before the first batch.
    """

    def __init__(
        self, handler: Any, count: int, wrap: _Wrap | None = None, warm_up: WarmUp = NO_WARM_UP
    ) -> None:
        if is_async(handler):
            msg = f"expected a handler that isn't async, got {handler!r}: it needs no threads"
            raise TypeError(msg)
        self.handler = name_of(handler)
        """What it is called in messages."""
        self._handler = handler
        self._wrap = wrap
        self._count = count
        self._ready: list[tuple[ThreadPoolExecutor, _Call]] = []
        self._threads: list[ThreadPoolExecutor] = []
        self._warm_up = warm_up
        self._timings: tuple[Timing, ...] = ()

    @property
    def health(self) -> Health:
        """All well once they are started."""
        return Health(frozenset(range(len(self._ready))), self._count, warm_up=self._timings)

    async def start(self, on_change: Callable[[], None]) -> None:
        """Build the handler in each thread and warm it up; see `Workers.start`."""
        loop = asyncio.get_running_loop()
        self._threads = [
            ThreadPoolExecutor(1, f"batch-worker-{number}", number_thread, (number,))
            for number in range(self._count)
        ]
        try:
            calls = await asyncio.gather(
                *(loop.run_in_executor(thread, self._build) for thread in self._threads)
            )
        except BaseException as error:
            await self.aclose()
            if not isinstance(error, Exception):
                raise
            raise _start_error(self._handler, error) from error
        self._ready = list(zip(self._threads, calls, strict=True))
        try:
            self._timings = await self._warmed()
        except BaseException:
            await self.aclose()
            raise
        on_change()

    async def run(self, items: list[Any], worker: int, /) -> Sequence[Any]:
        """Run one batch; see `Workers.run`."""
        thread, call = self._ready[worker]
        loop = asyncio.get_running_loop()
        # if we are cancelled, the thread runs on, and what comes next queues behind
        error, results = await loop.run_in_executor(thread, _attempt, call, items)
        if isinstance(error, Exception):
            raise error
        if error is not None:  # Ctrl-C and exits come to the main thread: this one was made here
            raise exit_as_error(error)
        return results  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Wait until the threads are done; see `Workers.aclose`."""
        threads, self._threads, self._ready = self._threads, [], []
        loop = asyncio.get_running_loop()
        # each thread's last job, so that `shutdown` finds it idle and does not block the loop
        await asyncio.gather(*(loop.run_in_executor(thread, _nothing) for thread in threads))
        for thread in threads:
            thread.shutdown()

    async def _warmed(self) -> tuple[Timing, ...]:
        """One after the other, so that they don't take each other's time."""

        async def warm(worker: int) -> Durations:
            name = name_of(self._handler)
            return await warmed(self._warm_up, name, lambda items: self.run(items, worker))

        return timings([await warm(worker) for worker in range(self._count)])

    def _build(self) -> _Call:
        call, warm_up = build(self._handler)
        warm_up()
        return self._wrap(call) if self._wrap else call


def _attempt(call: _Call, items: list[Any]) -> tuple[BaseException | None, Any]:
    """Return what was raised: a future can't hold StopIteration, and would never be done."""
    try:
        return None, call(items)
    except BaseException as error:  # noqa: BLE001 - raised again on the event loop
        return error, None


def _start_error(handler: Any, error: Exception) -> WorkerStartError:
    return WorkerStartError(f"{name_of(handler)} could not be built: {describe(error)}")


def _nothing() -> None:
    pass


async def _not_started(items: list[Any]) -> Sequence[Any]:
    msg = f"workers must be started before they can take a batch of {len(items)}"
    raise RuntimeError(msg)
