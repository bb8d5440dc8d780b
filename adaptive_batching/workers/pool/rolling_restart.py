"""A fresh worker takes the place of one that still works, and no batch is lost by it."""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any

from adaptive_batching.errors import Draining, HandlerNotFound, WorkerStartError
from adaptive_batching.workers.pool.backoff import Backoff
from adaptive_batching.workers.pool.launcher import PoolWorker

_log = logging.getLogger("adaptive_batching")

_NO_PAUSE = float  # returns 0.0


class RollingRestart:
    """Renews the workers of a pool, one at a time.

    A successor is started and warm before it takes the place over: from then on batches go to it,
    while its predecessor ends the one that it holds and leaves. There is one process more than
    usual meanwhile, on the same cores. If a successor can't be started, the old worker stays.

    Args:
        workers: Those of the pool, by number; their places change hands here.
        make: Returns a worker for a number, not started yet.
        start: Starts it; returns when it is warm.
        on_change: Called when a place has changed hands.

    Attributes:
        renewed: Places that have changed hands so far.
        places: A task that puts a worker in a place holds its lock.
        busy: Workers that hold a batch.
        turn: A task that changes places one after the other, or their number, holds this lock.
    """

    def __init__(
        self,
        workers: list[PoolWorker],
        make: Callable[[int], PoolWorker],
        start: Callable[[PoolWorker], Coroutine[Any, Any, object]],
        on_change: Callable[[], None],
    ) -> None:
        self.renewed = 0
        self.places = [asyncio.Lock() for _ in workers]
        self.busy: set[PoolWorker] = set()
        self.turn = asyncio.Lock()
        self._workers = workers
        self._make = make
        self._start = start
        self._on_change = on_change
        self._tasks: set[asyncio.Task[None]] = set()
        self._worn: set[int] = set()
        self._leaving: asyncio.Event | None = None
        self._closed = False

    def ended(self, worker: PoolWorker) -> None:
        """The batch that a worker held has ended."""
        self.busy.discard(worker)
        if self._leaving is not None:
            self._leaving.set()

    async def renew_all(self) -> None:
        """Renew every worker; returns when the last predecessor has left.

        Raises:
            WorkerStartError: A successor could not be started. Its predecessor and those after it
                stay; those before it are renewed.
            Draining: The pool was closed meanwhile.
        """
        await self.carry_out(self._roll_out(), "restarted")

    async def carry_out(self, change: Coroutine[Any, Any, None], what: str) -> None:
        """Do something to the pool that ends with it.

        Args:
            change: What is done.
            what: What becomes of the workers by it, for the message.

        Raises:
            Draining: The pool was closed before or meanwhile.
        """
        stopped = f"the workers were stopped before they were {what}"
        if self._closed:
            change.close()
            raise Draining(stopped)
        try:
            await self._own(change)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                raise Draining(stopped) from None
            raise

    def renew_soon(
        self, number: int, worn: PoolWorker, pause: Callable[[], float] = _NO_PAUSE
    ) -> None:
        """Renew the worker of this number in the background, however many attempts it takes.

        Args:
            number: Its place.
            worn: The worker that is there now; nothing happens to another one.
            pause: Returns the seconds to wait first; asked unless it is to be renewed already.
        """
        if number not in self._worn and not self._closed:
            self._worn.add(number)
            self._own(self._recycle(number, worn, pause()))

    async def until_idle(self, worker: PoolWorker) -> None:
        """Wait until a worker holds no batch; only a task that has the `turn` may."""
        try:
            while worker in self.busy:
                self._leaving = asyncio.Event()
                await self._leaving.wait()
        finally:
            self._leaving = None

    async def aclose(self) -> None:
        """Begin nothing more; workers about to leave, or to come, are gone afterwards."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _roll_out(self) -> None:
        async with self.turn:
            for number, worker in enumerate(self._workers):
                try:
                    await self._renew(number)
                except (WorkerStartError, HandlerNotFound) as error:
                    count = len(self._workers)
                    msg = (
                        f"the restart stopped after {number} of {count} workers, {worker} stays: "
                        f"{error}"
                    )
                    raise WorkerStartError(msg) from error

    async def _recycle(self, number: int, worn: PoolWorker, pause: float) -> None:
        backoff = Backoff(random.random)
        try:
            await asyncio.sleep(pause)
            while worn in self._workers:
                try:
                    async with self.turn:
                        if worn in self._workers:
                            await self._renew(number)
                except (WorkerStartError, HandlerNotFound) as error:
                    _log.warning("%r is worn out, but stays: %s", worn, error)
                    await asyncio.sleep(backoff.after(0.0))
        finally:
            self._worn.discard(number)

    async def _renew(self, number: int) -> None:
        async with self.places[number]:
            successor = self._make(number)
            await self._start(successor)
            predecessor, self._workers[number] = self._workers[number], successor
            self.renewed += 1
            self._on_change()
        await self._retire(predecessor)
        _log.info("%r has taken the place of %r", successor, predecessor)

    async def _retire(self, worker: PoolWorker) -> None:
        """Let it end the batch that it holds; it gets no other."""
        try:
            await self.until_idle(worker)
            await worker.aclose()
        except asyncio.CancelledError:
            await worker.aclose()  # perhaps for the second time: the first was interrupted
            raise

    def _own(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
