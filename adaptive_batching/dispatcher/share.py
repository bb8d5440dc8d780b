"""One class of jobs before workers that several share: to its callers a dispatcher of its own."""

from collections.abc import Hashable, Sequence
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from adaptive_batching.core import Batch, BatchRecord, Job, JobOutcome, Limits
from adaptive_batching.dispatcher.calls import Call, OnEnd
from adaptive_batching.dispatcher.dispatcher import Dispatcher
from adaptive_batching.dispatcher.observers import Companion, Observer, Observers
from adaptive_batching.dispatcher.stats import Stats
from adaptive_batching.workers.interface import Workers

T = TypeVar("T")
R = TypeVar("R")


class Forming(Protocol):
    """What forms batches, as onlookers see it: a dispatcher, or a class's share of one."""

    @property
    def workers(self) -> Workers:
        """Where the batches run."""

    @property
    def limits(self) -> Limits:
        """Batch size, latency, queue."""

    def stats(self) -> Stats:
        """What happened so far and what waits."""

    async def restart_workers(self) -> None:
        """Put a fresh process in the place of each worker; see `Dispatcher.restart_workers`."""


class Share(Generic[T, R]):
    """Lets jobs of one class join their own batches; the scheduler decides for all classes.

    The workers start with the first share that is started, and stop when all are closed.

    Args:
        whole: The dispatcher.
        key: Of the class, among the dispatcher's `classes`.
    """

    def __init__(self, whole: Dispatcher[T, R], key: Hashable) -> None:
        self.whole = whole
        self._key = key

    @property
    def limits(self) -> Limits:
        """Batch size, latency, queue of the class."""
        return self.whole.classes[self._key].limits

    @property
    def workers(self) -> Workers:
        """Those of all classes."""
        return self.whole.workers

    @property
    def ready(self) -> bool:
        """Whether the workers have been ready, so that it can answer."""
        return self.whole.ready

    async def start(self) -> None:
        """Start the workers, unless another share has; returns when they are ready.

        Raises:
            WorkerStartError: A worker could not load its handlers.
        """
        await self.whole.start()

    async def submit(self, item: T, max_latency: float, cost: float | Exception = 0.0) -> R:
        """Let one item join a batch; see `Dispatcher.submit`."""
        return await self.whole.submit(item, max_latency, self._key, cost=cost)

    def post(
        self, on_end: OnEnd, item: T, max_latency: float, cost: float | Exception = 0.0
    ) -> Call[T, R]:
        """Submit a call whose outcome is a callback; see `Dispatcher.post`."""
        return self.whole.post(on_end, item, max_latency, self._key, cost=cost)

    def fail_unseen(
        self, error: Exception, keys: Sequence[Hashable] = (None,), max_latency: float = inf
    ) -> None:
        """Count calls that could not be submitted; see `Dispatcher.fail_unseen`."""
        self.whole.fail_unseen(error, [self._key] * len(keys), max_latency)

    async def restart_workers(self) -> None:
        """Put a fresh process in the place of each worker, for all classes."""
        await self.whole.restart_workers()

    def retune(self, limits: Limits) -> None:
        """Decide by other limits about this class; what waits, waits on."""
        self.whole.retune_class(self._key, limits)

    def flush(self) -> None:
        """From now on let what waits leave as soon as a worker is free, of all classes."""
        self.whole.flush()

    async def aclose(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Let what waits finish, that of the other classes too, then stop the workers."""
        await self.whole.aclose(timeout)

    def stats(self) -> Stats:
        """What happened to this class; running batches and workers are those of all."""
        return self.whole.stats_of(self._key)


class OfClass:
    """Tells observers of one class of jobs only; a `JobObserver`.

    Args:
        key: Of the class.
        observers: Hear of its jobs.
    """

    def __init__(self, key: Hashable, observers: Sequence[Observer]) -> None:
        self._key = key
        self._observers = Observers(observers)

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """A batch of any class has ended."""
        if record.key == self._key:
            self._observers.batch_ended(batch, record)

    def jobs_ended(
        self, jobs: Sequence[Job], outcome: JobOutcome, now: float, batch: BatchRecord | None
    ) -> None:
        """Some jobs of any class have ended."""
        mine = [job for job in jobs if job.key == self._key]
        if mine:
            self._observers.jobs_ended(mine, outcome, now, batch)


class CompanionOfClass(OfClass):
    """A share where one of them goes along from the beginning; a `Companion`."""

    def call_made(self, call: Call[Any, Any]) -> None:
        """A call of any class comes in."""
        if call.key == self._key:
            self._observers.call_made(call)

    def batch_left(self, batch: Batch) -> None:
        """A batch of any class leaves."""
        if batch.key == self._key:
            self._observers.batch_left(batch)


def of_class(key: Hashable, observers: Sequence[Observer]) -> OfClass:
    """Tell observers of one class of jobs only."""
    along = any(isinstance(each, Companion) for each in observers)
    return CompanionOfClass(key, observers) if along else OfClass(key, observers)
