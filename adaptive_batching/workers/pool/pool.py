"""Workers that are replaced when they die."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import Any, TypeVar

from adaptive_batching.errors import HandlerNotFound, WorkerLost, WorkerStartError
from adaptive_batching.side_by_side import side_by_side
from adaptive_batching.units import format_duration
from adaptive_batching.workers.handler.results import raised_by_calls
from adaptive_batching.workers.handler.warm_up import (
    NO_WARM_UP,
    Durations,
    Run,
    Timing,
    WarmUp,
    faster,
    timings,
)
from adaptive_batching.workers.interface import Health
from adaptive_batching.workers.pool.backoff import Backoff, Relief
from adaptive_batching.workers.pool.crash_loop import DeathRegister
from adaptive_batching.workers.pool.launcher import Launcher, PoolWorker
from adaptive_batching.workers.pool.rolling_restart import RollingRestart

T = TypeVar("T")

_log = logging.getLogger("adaptive_batching.workers")


class WorkerPool:
    """Runs batches on workers that it keeps alive, each on the one that it is for.

    A worker that died is started again in the background, later with each death in a row between
    which no batch was answered. Whatever ends the event loop ends the workers.

    Args:
        launcher: Makes the workers.
        count: How many.
        timeout: Seconds after which a batch is given up and its worker killed.
        start_timeout: Seconds that a worker may take until it is ready.
        worn_out: Whether a worker that has just ended a batch makes way for a fresh one.
        warm_up: What a worker runs before it is ready.
    """

    def __init__(
        self,
        launcher: Launcher,
        count: int,
        *,
        timeout: float,
        start_timeout: float,
        worn_out: Callable[[PoolWorker], bool] | None = None,
        warm_up: WarmUp = NO_WARM_UP,
    ) -> None:
        self._launcher = launcher
        self._count = count
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._worn_out = worn_out
        self._warm_up = warm_up
        self._meets_all = False
        self._cold: set[PoolWorker] = set()
        self._useful: set[PoolWorker] = set()  # have answered a batch
        self._timings: tuple[Timing, ...] = ()
        self._workers: list[PoolWorker] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._rolling_restart: RollingRestart | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._restarts = 0
        self._deaths = DeathRegister()
        self._relief = Relief(time.monotonic, random.random)
        self._failure: WorkerStartError | None = None
        self._on_change: Callable[[], None] = lambda: None

    def __repr__(self) -> str:
        health = self.health
        return f"<WorkerPool alive={health.alive}/{health.wanted} restarts={health.restarts}>"

    @property
    def health(self) -> Health:
        """How the workers are."""
        staying = self._workers[: self._count]
        living = frozenset(index for index, each in enumerate(staying) if self._can_work(each))
        failure = None if living else self._failure
        renewed = self._rolling_restart.renewed if self._rolling_restart else 0
        crash_loop = self._deaths.crash_loop(time.monotonic())
        counts = (self._count, self._restarts)
        return Health(living, *counts, failure, renewed, crash_loop, warm_up=self._timings)

    @property
    def pids(self) -> list[int]:
        """The processes of this machine that are alive."""
        return [worker.pid for worker in self._workers if worker.alive and worker.pid is not None]

    async def start(self, on_change: Callable[[], None]) -> None:
        """Start all workers side by side; see `Workers.start` and `Launcher.prepare`."""
        await self._launcher.prepare()
        self._loop = asyncio.get_running_loop()
        self._workers = [self._launch(number) for number in range(self._count)]
        self._rolling_restart = RollingRestart(
            self._workers, self._launch, self._begin, self._changed
        )
        try:
            cold = await side_by_side(map(self._begin, self._workers))
            # now that none of them loads any more and takes the others' time
            first = await side_by_side(map(self._warm, self._workers))
            self._meets_all = self._warm_up.goes_on(
                repr(self._workers[0]), cold[0], first[0], self._start_timeout / 2
            )
            await side_by_side(map(self._meet, self._workers))
            second = await side_by_side(map(self._warm, self._workers))
            self._timings = timings(map(faster, first, second))
        except BaseException:
            await self.aclose()
            raise
        self._on_change = on_change
        self._keepers = [
            self._keeper(number, place) for number, place in enumerate(self._rolling_restart.places)
        ]
        on_change()

    async def run(self, items: list[Any], worker: int, /) -> Sequence[Any]:
        """Run one batch; see `Workers.run`."""
        chosen = self._workers[worker]
        if not self._can_work(chosen):
            msg = f"{chosen!r} is not alive to take the batch"
            raise WorkerLost(msg)
        restart = self._rolling_restart
        assert restart is not None
        restart.busy.add(chosen)
        try:
            results = await chosen.run(items, self._timeout)
        except MemoryError:
            restart.renew_soon(worker, chosen, partial(self._relieve, chosen))
            raise
        else:
            if any(isinstance(error, MemoryError) for error in raised_by_calls(results)):
                restart.renew_soon(worker, chosen, partial(self._relieve, chosen))
            return results
        finally:
            restart.ended(chosen)
            if chosen.alive:  # else it died over the batch
                self._useful.add(chosen)
                self._deaths.forget()
            if self._worn_out is not None and self._worn_out(chosen):
                restart.renew_soon(worker, chosen)

    async def restart(self) -> None:
        """Renew one worker after the other; see `Restartable.restart`."""
        if self._rolling_restart is not None:
            await self._rolling_restart.renew_all()

    async def scale(self, count: int) -> None:
        """Have so many workers from now on; see `Scalable.scale`."""
        if self._launcher.most is not None and count > self._launcher.most:
            msg = f"expected at most {self._launcher.most} workers, each has its cpus or its device"
            raise ValueError(f"{msg}, got {count}")
        if self._rolling_restart is None:
            self._count = count
            return
        await self._rolling_restart.carry_out(self._scale(count, self._rolling_restart), "scaled")

    async def aclose(self) -> None:
        """Stop all workers; see `Workers.aclose`."""
        if self._loop is not asyncio.get_running_loop():
            self._workers, self._keepers, self._rolling_restart = (
                [],
                [],
                None,
            )  # ended with their loop
        if self._rolling_restart is not None:
            await self._rolling_restart.aclose()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(worker.aclose() for worker in self._workers))

    # -------------------------------------------------------------------------------------- number

    async def _scale(self, count: int, restart: RollingRestart) -> None:
        async with restart.turn:
            if count > self._count:
                await self._grow(count, restart)
            else:
                await self._shrink(count, restart)

    async def _grow(self, count: int, restart: RollingRestart) -> None:
        fresh = [self._launch(number) for number in range(self._count, count)]
        try:
            await side_by_side(map(self._begin, fresh))
        except BaseException:
            await asyncio.gather(*(worker.aclose() for worker in fresh))
            raise
        for number, worker in enumerate(fresh, self._count):
            self._workers.append(worker)
            restart.places.append(asyncio.Lock())
            self._keepers.append(self._keeper(number, restart.places[number]))
        self._count = count
        self._on_change()

    async def _shrink(self, count: int, restart: RollingRestart) -> None:
        self._count = count
        self._on_change()  # from now on those that leave are given no batches
        await asyncio.sleep(0)  # whose task was made before begins now, and so keeps them busy
        while len(self._workers) > count:
            await restart.until_idle(self._workers[-1])
            keeper = self._keepers.pop()
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            self._workers.pop()
            restart.places.pop()

    # ------------------------------------------------------------------------------- replacements

    def _keeper(self, number: int, place: asyncio.Lock) -> asyncio.Task[None]:
        return asyncio.create_task(self._keep(number, place), name=f"keeper of worker {number}")

    async def _keep(self, number: int, place: asyncio.Lock) -> None:
        """Replace the worker of this number whenever it dies, until cancelled."""
        loop = asyncio.get_running_loop()
        backoff = Backoff(random.random)
        born = loop.time()
        try:
            while True:
                worker = self._workers[number]
                await worker.exited()
                if worker in self._useful:
                    self._useful.remove(worker)
                    backoff.forget()
                if worker is self._workers[number]:  # else it made way for a successor
                    delay = backoff.after(loop.time() - born)
                    self._report(worker, delay)
                    await asyncio.sleep(delay)
                async with place:
                    born = loop.time()
                    if worker is self._workers[number]:
                        await self._replace(number)
        finally:
            await self._workers[number].aclose()
            self._useful.discard(self._workers[number])

    def _relieve(self, worker: PoolWorker) -> float:
        pause = self._relief.pause()
        soon = format_duration(pause)
        _log.warning("%r ran out of memory: a fresh one is to take its place in %s", worker, soon)
        return pause

    def _report(self, worker: PoolWorker, delay: float) -> None:
        self._deaths.enter(f"{worker!r}, {worker.fate}", time.monotonic())
        another = format_duration(delay)
        _log.warning("%r %s; another one is started in %s", worker, worker.fate, another)

    async def _replace(self, number: int) -> None:
        self._restarts += 1
        worker = self._workers[number] = self._launch(number)
        try:
            await self._begin(worker)
        except HandlerNotFound as error:
            self._failure = WorkerStartError(str(error))
        except WorkerStartError as error:
            self._failure = error
        else:
            self._failure = None
        self._on_change()

    async def _begin(self, worker: PoolWorker) -> Durations:
        """Start a worker and warm it up; it gets no batches before."""
        self._cold.add(worker)
        try:
            await worker.start(self._start_timeout)
            if durations := await self._warm(worker):
                self._deaths.forget()
            await self._meet(worker)
            return durations
        finally:
            self._cold.discard(worker)

    async def _warm(self, worker: PoolWorker) -> Durations:
        return await self._rehearse(worker, self._warm_up.run)

    async def _meet(self, worker: PoolWorker) -> None:
        """Run the other sizes as well, if each is slow at first."""
        if self._meets_all:
            meet = partial(self._warm_up.meet, patience=self._start_timeout / 2)
            await self._rehearse(worker, meet)

    async def _rehearse(
        self, worker: PoolWorker, rehearsal: Callable[[str, Run], Awaitable[T]]
    ) -> T:
        try:
            async with asyncio.timeout(self._start_timeout):
                # a first batch may take longer than any other
                return await rehearsal(repr(worker), lambda items: worker.run(items, inf))
        except BaseException as error:
            await worker.aclose()
            if isinstance(error, TimeoutError):
                within = format_duration(self._start_timeout)
                raise WorkerStartError(f"{worker!r} was not warm within {within}") from error
            raise

    def _can_work(self, worker: PoolWorker) -> bool:
        return worker.alive and worker not in self._cold

    def _launch(self, number: int) -> PoolWorker:
        return self._launcher.launch(number, self._changed)

    def _changed(self) -> None:
        self._on_change()
