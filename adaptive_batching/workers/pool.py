"""Worker processes that are replaced when they die."""

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

from adaptive_batching.errors import HandlerNotFound, UsageError, WorkerLost, WorkerStartError
from adaptive_batching.workers.backoff import Backoff
from adaptive_batching.workers.handler import HandlerReference, MainScript
from adaptive_batching.workers.instructions import Instructions
from adaptive_batching.workers.interface import Health
from adaptive_batching.workers.process import ProcessWorker


class WorkerPool:
    """Runs batches in processes, each on the one that it is for.

    A worker that died is started again in the background, sooner after the first death than after
    many. Whatever ends the event loop ends the processes.

    Args:
        handler: What runs a batch.
        count: Processes.
        cpus: The cores of each process; None for all of them.
        timeout: Seconds after which a batch is given up and its process killed.
        start_timeout: Seconds that a process may take until it is ready.
        wrap: A function that takes the handler, ready to be called with items, and returns what
            to call instead.
    """

    def __init__(
        self,
        handler: HandlerReference,
        count: int,
        *,
        cpus: Sequence[Sequence[int]] | None = None,
        timeout: float,
        start_timeout: float,
        wrap: HandlerReference | None = None,
    ) -> None:
        self._handler = handler
        self._wrap = wrap
        self._cpus = cpus
        self._count = count
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._workers: list[ProcessWorker] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._restarts = 0
        self._failure: WorkerStartError | None = None
        self._on_change: Callable[[], None] = _nobody

    def __repr__(self) -> str:
        health = self.health
        return f"<WorkerPool alive={health.alive}/{health.wanted} restarts={health.restarts}>"

    @property
    def health(self) -> Health:
        """How the processes are."""
        alive = (index for index, worker in enumerate(self._workers) if worker.alive)
        living = frozenset(alive)
        return Health(living, self._count, self._restarts, None if living else self._failure)

    @property
    def pids(self) -> list[int]:
        """The processes that are alive."""
        return [worker.pid for worker in self._workers if worker.alive and worker.pid is not None]

    async def start(self, on_change: Callable[[], None]) -> None:
        """Start all processes side by side; see `Workers.start`.

        Raises:
            ValueError: The machine does not have the cores.
        """
        if MainScript.is_loading():
            msg = (
                "a worker process that imports the program would start workers itself: put what"
                " the program does under `if __name__ == '__main__':`"
            )
            raise UsageError(msg)
        # Not before: workers import the module that asks for the cores, and are pinned to theirs.
        _check_cpus(self._cpus)
        self._loop = asyncio.get_running_loop()
        self._workers = [self._worker(number) for number in range(self._count)]
        try:
            async with asyncio.TaskGroup() as group:
                for worker in self._workers:
                    group.create_task(worker.start(self._start_timeout))
        except BaseException as error:
            await self.aclose()
            if isinstance(error, BaseExceptionGroup):
                first = error.exceptions[0]
                raise first from first.__cause__
            raise
        self._on_change = on_change
        self._keepers = [
            asyncio.create_task(self._keep(number), name=f"keeper of {worker!r}")
            for number, worker in enumerate(self._workers)
        ]
        on_change()

    async def run(self, items: list[Any], worker: int, /) -> Sequence[Any]:
        """Run one batch; see `Workers.run`."""
        process = self._workers[worker]
        if not process.alive:
            msg = f"{process!r} is not alive to take the batch"
            raise WorkerLost(msg)
        return await process.run(items, self._timeout)

    async def aclose(self) -> None:
        """Stop all processes; see `Workers.aclose`."""
        if self._loop is not asyncio.get_running_loop():
            self._workers, self._keepers = [], []  # that loop's end was theirs
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(worker.aclose() for worker in self._workers))

    # ------------------------------------------------------------------------------- replacements

    async def _keep(self, number: int) -> None:
        """Replace the worker of this number whenever it dies, until cancelled."""
        loop = asyncio.get_running_loop()
        backoff = Backoff(random.random)
        born = loop.time()
        try:
            while True:
                await self._workers[number].exited()
                await asyncio.sleep(backoff.after(loop.time() - born))
                born = loop.time()
                await self._replace(number)
        finally:
            await self._workers[number].aclose()

    async def _replace(self, number: int) -> None:
        self._restarts += 1
        worker = self._workers[number] = self._worker(number)
        try:
            await worker.start(self._start_timeout)
        except HandlerNotFound as error:
            self._failure = WorkerStartError(str(error))
        except WorkerStartError as error:
            self._failure = error
        else:
            self._failure = None
        self._on_change()

    def _worker(self, number: int) -> ProcessWorker:
        cpus = tuple(self._cpus[number]) if self._cpus else None
        instructions = Instructions(self._handler, self._wrap, cpus, parent=os.getpid())
        return ProcessWorker(number, instructions, self._lost)

    def _lost(self) -> None:
        self._on_change()


def _nobody() -> None:
    pass


def _check_cpus(cpus: Sequence[Sequence[int]] | None) -> None:
    available = os.sched_getaffinity(0)
    unknown = {cpu for group in cpus or () for cpu in group} - available
    if unknown:
        msg = f"expected cpus out of {sorted(available)}, got {sorted(unknown)}"
        raise ValueError(msg)
