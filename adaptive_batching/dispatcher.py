"""Drives a scheduler on an asyncio loop: futures, one timer, workers.

The scheduler decides, the dispatcher does. `_pump` runs once per turn of the loop after submits,
ends of batches and the timer, so that what arrives together leaves together; a call costs a future
and a queue entry, not a task.
"""

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from math import inf
from typing import Any, Generic, TypeVar, cast

from adaptive_batching.calls import Call, share_out
from adaptive_batching.core import (
    Batch,
    BatchRecord,
    Hold,
    JobOutcome,
    Limits,
    Outcome,
    PolicyLike,
    Reason,
    Scheduler,
    Shed,
    ShedReason,
    make_policy,
)
from adaptive_batching.errors import (
    BatchingError,
    DeadlineExceeded,
    Draining,
    Overloaded,
    PolicyError,
    QueueFull,
    Refused,
    WorkerLost,
    WorkerStartError,
    WorkerTimeout,
    WrongEventLoop,
)
from adaptive_batching.ledger import Ledger, Observer, Stats
from adaptive_batching.workers.interface import Workers
from adaptive_batching.workers.results import check_results

T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger("adaptive_batching")


class Dispatcher(Generic[T, R]):
    """Collects single items into batches for some workers.

    Args:
        workers: Where batches run.
        limits: Batch size, latency, queue.
        policy: Name, class or object; see `core.policies`.
        clock: Monotonic seconds.
        observers: Told about every batch.
    """

    def __init__(
        self,
        workers: Workers,
        limits: Limits,
        *,
        policy: PolicyLike = "cork",
        clock: Callable[[], float] = time.monotonic,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.workers = workers
        self._limits = limits
        self._policy = policy
        self._clock = clock
        self._observers = tuple(observers)
        self._context = contextvars.Context()  # no batch runs in its first caller's context
        self._begin()

    def _begin(self) -> None:
        """Know nothing, wait for a loop."""
        self._scheduler = Scheduler(make_policy(self._policy), self._limits, workers=0)
        self._ledger = Ledger()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._now = -inf
        self._starting: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._pump_due = False
        self._timer: asyncio.TimerHandle | None = None  # on the loop's clock: CLOCK_MONOTONIC too
        self._drained = asyncio.Event()
        self._failure: BatchingError | None = None

    def __repr__(self) -> str:
        return f"<Dispatcher running={len(self._running)} {self._scheduler!r}>"

    @property
    def saturation(self) -> int:
        """Items under way that keep every worker busy and its next batch full."""
        limits = self._limits
        wanted = limits.max_batch_size * (self.workers.health.wanted + 1)
        return min(wanted, limits.max_queue)

    async def __aenter__(self) -> "Dispatcher[T, R]":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Start the workers; returns when they are ready. The first `submit` does it otherwise.

        Raises:
            WorkerStartError: A worker could not load its handler.
        """
        if self._scheduler.draining:  # it was closed, and is wanted again
            self._begin()
        self._bind()
        assert self._starting is not None
        await asyncio.shield(self._starting)
        if self._failure is not None:
            raise self._failure

    async def submit(
        self, item: T, key: Hashable = None, max_latency: float | None = None, size: int = 1
    ) -> R:
        """Let one item join a batch and return its own result.

        Args:
            item: What the handler gets in its list.
            key: Only equal keys share a batch.
            max_latency: Seconds, instead of the limit's.
            size: How many items it counts as.

        Raises:
            Refused: Before any work was done: Overloaded, QueueFull, Draining, JobTooLarge.
            DeadlineExceeded: It waited past its deadline.
            ValueError: `max_latency` is not positive or `size` is less than 1.
            Exception: What the handler raised, or returned in this item's place.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._bind()
        if self._failure is not None:
            raise self._failure
        if max_latency is None:
            max_latency = self._limits.max_latency
        elif not max_latency > 0:
            raise ValueError(
                f"max_latency: expected a positive number of seconds, got {max_latency}"
            )
        now = self._clock()
        deadline = now + max_latency
        call: Call[T, R] = Call(item, loop.create_future(), now, size, deadline, key)
        try:
            self._scheduler.submit(call)
        except Refused as refusal:
            full = isinstance(refusal, QueueFull)
            self._ledger.enter(JobOutcome.QUEUE_FULL if full else JobOutcome.SHED)
            raise
        if not self._pump_due:
            self._pump_soon()
        try:
            return await call.future
        except asyncio.CancelledError:
            if self._scheduler.cancel(call):
                self._ledger.enter(JobOutcome.CANCELLED)
            raise

    async def aclose(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Let what waits finish, then stop the workers.

        Args:
            timeout: Seconds after which what is left is given up: waiting requests are refused as
                `Draining`, running ones cancelled.
        """
        if self._loop is None:
            return
        self._scheduler.drain()
        self._drained.clear()  # set by any pump that found nothing to do; the next one knows
        self._pump_soon()
        try:
            async with asyncio.timeout(timeout):
                await self._drained.wait()
        except TimeoutError:
            self._give_up(Draining("the dispatcher was closed before this request's turn came"))
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
        if self._starting is not None:
            self._starting.cancel()
        if self._timer is not None:
            self._timer.cancel()
        await self.workers.aclose()

    def stats(self) -> Stats:
        """What happened so far and what waits."""
        scheduler, ledger = self._scheduler, self._ledger
        return Stats(
            requests={outcome: ledger.requests[outcome] for outcome in JobOutcome},
            batches=ledger.batches,
            mean_batch_size=ledger.mean_batch_size,
            releases={reason: ledger.releases[reason] for reason in Reason},
            fixed=scheduler.latency.fixed,
            per_item=scheduler.latency.per_item,
            queued=scheduler.items,
            running=scheduler.permits.running,
            workers=scheduler.permits.capacity,
        )

    # --------------------------------------------------------------------- the loop of decisions

    def _pump_soon(self) -> None:
        assert self._loop is not None
        self._pump_due = True
        self._loop.call_soon(self._pump, context=self._context)

    def _pump(self, not_before: float = -inf) -> None:
        """Carry out what the scheduler says until it says hold, then arm its one wake-up."""
        self._pump_due = False
        # Loops fire early by their clock's resolution (uvloop: half a millisecond).
        self._now = now = max(self._now, self._clock(), not_before)
        try:
            step = self._scheduler.next(now)
            while not isinstance(step, Hold):
                if isinstance(step, Batch):
                    self._launch(step)
                else:
                    self._turn_away(step)
                step = self._scheduler.next(now)
        except PolicyError as error:
            self._give_up(error)
        else:
            self._arm(step.until)
        if not self._scheduler.items and not self._scheduler.permits.running:
            self._drained.set()

    def _arm(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if until < inf:
            assert self._loop is not None
            self._timer = self._loop.call_at(until, self._pump, until, context=self._context)

    def _launch(self, batch: Batch) -> None:
        assert self._loop is not None
        task = self._loop.create_task(self._run(batch))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, batch: Batch) -> None:
        """Run one batch; whatever happens, its permit returns and each member gets one outcome."""
        calls = cast("list[Call[T, R]]", batch.jobs)
        results: Sequence[Any]
        interrupted: BaseException | None = None
        try:
            answer = await self.workers.run([call.item for call in calls])
            results = check_results(answer, len(calls))
            outcome = Outcome.DONE
        except Exception as error:  # noqa: BLE001  the handler's own, for its callers
            results = [error] * len(calls)
            outcome = Outcome.OVERLOADED if isinstance(error, WorkerTimeout) else Outcome.FAILED
        except BaseException as error:  # noqa: BLE001  no member may be left waiting
            outcome = Outcome.FAILED
            results = [error] * len(calls)
            if _stops_us(error):
                interrupted = error
                closed = WorkerLost("the dispatcher was stopped while it ran this request's batch")
                results = [closed] * len(calls)
        self._conclude(batch, outcome, results)
        if interrupted is not None:
            raise interrupted

    def _conclude(self, batch: Batch, outcome: Outcome, results: Sequence[Any]) -> None:
        self._now = now = max(self._now, self._clock())
        try:
            record = self._scheduler.finish(batch, outcome, now)
        except PolicyError as error:
            self._give_up(error)
        else:
            self._tell(batch, record)
        failed, cancelled = share_out(cast("list[Call[T, R]]", batch.jobs), results)
        self._ledger.enter_batch(batch, failed, cancelled)
        if not self._pump_due:
            self._pump_soon()

    def _tell(self, batch: Batch, record: BatchRecord) -> None:
        for observer in self._observers:
            try:
                observer.batch_ended(batch, record)
            except Exception:  # noqa: BLE001  the batch is not to blame for it
                _log.exception("an observer failed; batches go on")

    def _turn_away(self, shed: Shed) -> None:
        expired = shed.reason is ShedReason.EXPIRED
        for call in cast("Sequence[Call[T, R]]", shed.jobs):
            waited = f"{self._now - call.arrived:.3f} s in the queue"
            if expired:
                call.fail(DeadlineExceeded(f"no worker was free in {waited}"))
            else:
                patience = call.deadline - call.arrived
                retry_after = self._scheduler.latency.predict(1)
                message = f"after {waited} an answer within {patience:.3f} s is out of reach"
                call.fail(Overloaded(message, retry_after=retry_after))
        self._ledger.enter(JobOutcome.EXPIRED if expired else JobOutcome.SHED, len(shed.jobs))

    def _give_up(self, error: BatchingError) -> None:
        """Nobody will run what waits."""
        abandoned = cast("list[Call[T, R]]", self._scheduler.abandon())
        for call in abandoned:
            call.fail(error)
        self._ledger.enter(JobOutcome.FAILED, len(abandoned))

    # ------------------------------------------------------------------------ the loop, the workers

    def _bind(self) -> None:
        """Belong to the running loop and start the workers on it.

        When the loop that it belonged to has ended, everybody who waited is gone: begin anew.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop.is_closed():
            self._begin()
        if self._loop is None:
            self._loop = loop
            self._starting = loop.create_task(self._start(), context=self._context)
        elif self._loop is not loop:
            raise WrongEventLoop("this dispatcher belongs to another event loop that still runs")

    async def _start(self) -> None:
        try:
            await self.workers.aclose()  # of a loop that ended without closing them
            await self.workers.start(self._workers_changed)
        except Exception as error:  # noqa: BLE001  whatever it is, nobody may wait for ever
            failure = error if isinstance(error, BatchingError) else _start_error(error)
            self._failure = failure
            self._give_up(failure)
        else:
            self._workers_changed()

    def _workers_changed(self) -> None:
        health = self.workers.health
        self._scheduler.permits.capacity = health.alive
        self._failure = None if health.alive else health.failure
        if self._failure is not None:
            self._give_up(self._failure)
        self._pump_soon()


def _start_error(error: Exception) -> WorkerStartError:
    wrapped = WorkerStartError(f"the workers could not be started: {error}")
    wrapped.__cause__ = error
    return wrapped


def _stops_us(error: BaseException) -> bool:
    """Whether the program wants this task to end, or only the handler said so."""
    task = asyncio.current_task()
    cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
    return isinstance(error, KeyboardInterrupt) or bool(cancelled)
