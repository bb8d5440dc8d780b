"""Carries out on one event loop what the scheduler decides: futures, one timer, workers.

The scheduler decides, the driver does. `_pump` runs once per turn of the loop after submits, ends
of batches and the timer, so that what arrives together leaves together; a call costs a future and
a queue entry, not a task.
"""

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Generic, TypeVar, cast

from adaptive_batching.core import (
    Batch,
    Hold,
    Job,
    JobOutcome,
    Outcome,
    Reason,
    Scheduler,
    Shed,
    ShedReason,
    Worker,
)
from adaptive_batching.dispatcher.audience import Audience, Observer
from adaptive_batching.dispatcher.calls import Call, share_out
from adaptive_batching.dispatcher.ledger import Ledger, Stats, WorkerStats
from adaptive_batching.errors import (
    BatchingError,
    DeadlineExceeded,
    Draining,
    NoWorkers,
    Overloaded,
    PolicyError,
    QueueFull,
    Refused,
    WorkerLost,
    WorkerStartError,
    WorkerTimeout,
)
from adaptive_batching.workers.interface import Workers
from adaptive_batching.workers.results import check_results

T = TypeVar("T")
R = TypeVar("R")


class Driver(Generic[T, R]):
    """Drives a scheduler on one event loop, from its first call to its end.

    Args:
        loop: The running loop.
        scheduler: Decides; nobody else may drive it.
        workers: Where batches run; started at once.
        clock: Monotonic seconds, the loop's own or as good.
        observers: Told about every batch; a `JobObserver` about every request as well.
        next_batch_first: Whether the next batch leaves before the last one is answered.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        workers: Workers,
        clock: Callable[[], float],
        observers: Sequence[Observer],
        *,
        next_batch_first: bool,
    ) -> None:
        self.loop = loop
        self._scheduler = scheduler
        self._workers = workers
        self._clock = clock
        self._audience = Audience(observers)
        self._next_batch_first = next_batch_first
        self._ledger = Ledger()
        self._context = contextvars.Context()  # no batch runs in its first caller's context
        self._now = -inf
        self._pump_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._running: dict[Batch, asyncio.Task[None]] = {}
        self._overdue: dict[Batch, asyncio.TimerHandle] = {}
        self._drained = asyncio.Event()
        self._failure: BatchingError | None = None
        self._start_took = 0.0  # seconds; a worker that died is back no sooner
        self.ready = False
        """Whether the workers have been ready."""
        self._starting = loop.create_task(self._start(), context=self._context)

    def __repr__(self) -> str:
        return f"<Driver running={len(self._running)} {self._scheduler!r}>"

    @property
    def closing(self) -> bool:
        """Whether it takes no more calls."""
        return self._scheduler.draining

    async def started(self) -> None:
        """Wait until the workers are ready.

        Raises:
            WorkerStartError: They could not be started.
            Draining: They are not wanted any more.
        """
        try:
            await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self.closing and not _is_cancelled():
                raise Draining("the dispatcher was closed while its workers started") from None
            raise
        if self._failure is not None:
            raise self._failure

    def admit(self, call: Call[T, R]) -> None:
        """Let a call wait for its batch; its future will have the answer.

        Raises:
            Refused: It was turned away.
            WorkerStartError: There are no workers, nor will there be.
        """
        if self._failure is not None:
            raise self._failure
        try:
            if not self._scheduler.permits.capacity:
                self._check_return(call)
            self._scheduler.submit(call)
        except Refused as refusal:
            full = isinstance(refusal, QueueFull)
            self._enter([call], JobOutcome.QUEUE_FULL if full else JobOutcome.SHED)
            raise
        if not self._pump_due:
            self._pump_soon()

    def withdraw(self, call: Call[T, R]) -> None:
        """Its caller has gone."""
        if self._scheduler.cancel(call):
            self._enter([call], JobOutcome.CANCELLED)

    def flush(self) -> None:
        """From now on let what waits leave as soon as a worker is free."""
        self._scheduler.flush()
        self._pump_soon()

    async def drain(self, timeout: float | None) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Let what waits finish, at most `timeout` seconds, then stop the workers."""
        self._scheduler.drain()
        self._drained.clear()  # set by any pump that found nothing to do; the next one knows
        self._pump_soon()
        try:
            async with asyncio.timeout(timeout):
                await self._drained.wait()
        except TimeoutError:
            self._give_up(Draining("the dispatcher was closed before this request's turn came"))
            tasks = list(self._running.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for batch in list(self._running):  # cancelled before their first step
                self._conclude(batch, Outcome.FAILED, [_stopped()] * len(batch.jobs))
        self._starting.cancel()
        if self._timer is not None:
            self._timer.cancel()
        await self._workers.aclose()

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
            per_worker=tuple(map(self._stats_of, scheduler.permits.workers)),
        )

    def _stats_of(self, worker: Worker) -> WorkerStats:
        latency = worker.latency
        full = latency.predict(self._scheduler.limits.max_batch_size)
        return WorkerStats(worker.alive, worker.batches, latency.fixed, latency.per_item, full)

    # --------------------------------------------------------------------- the loop of decisions

    def _pump_soon(self) -> None:
        self._pump_due = True
        self.loop.call_soon(self._pump, context=self._context)

    def _pump(self, not_before: float = -inf) -> None:
        """Carry out what the scheduler says until it says hold, then arm its one wake-up."""
        self._pump_due = False
        # Loops fire early by their clock's resolution (uvloop: half a millisecond).
        self._now = now = max(self._now, self._clock(), not_before)
        turned_away: list[Shed] = []
        try:
            step = self._scheduler.next(now)
            while not isinstance(step, Hold):
                if isinstance(step, Batch):
                    self._launch(step)
                else:
                    turned_away.append(step)
                step = self._scheduler.next(now)
        except PolicyError as error:
            self._give_up(error)
        else:
            self._arm(step.until)
        for shed in turned_away:  # now that it is known who is busy, and so when to come again
            self._turn_away(shed)
        if not self._scheduler.items and not self._scheduler.permits.running:
            self._drained.set()

    def _arm(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if until < inf:
            self._timer = self.loop.call_at(until, self._pump, until, context=self._context)

    def _launch(self, batch: Batch) -> None:
        self._running[batch] = self.loop.create_task(self._run(batch))
        self._watch_deadlines(batch, batch.jobs)

    def _watch_deadlines(self, batch: Batch, jobs: Sequence[Job]) -> None:
        due = min(job.deadline for job in jobs)
        if due < inf:
            self._overdue[batch] = self.loop.call_at(due, self._expire_members, batch, due)

    def _expire_members(self, batch: Batch, due: float) -> None:
        """Nobody waits for a batch beyond his own deadline; the batch goes on for the others."""
        calls = cast("list[Call[T, R]]", batch.jobs)
        expired = [call for call in calls if call.deadline <= due and not call.future.done()]
        for call in expired:
            patience = call.deadline - call.arrived
            call.fail(DeadlineExceeded(f"its batch still ran after {patience:.3f} s"))
        self._enter(expired, JobOutcome.EXPIRED)
        later = [job for job in batch.jobs if job.deadline > due]
        if later:
            self._watch_deadlines(batch, later)

    async def _run(self, batch: Batch) -> None:
        """Run one batch; whatever happens, its permit returns and each member gets one outcome."""
        calls = cast("list[Call[T, R]]", batch.jobs)
        results: Sequence[Any]
        interrupted: BaseException | None = None
        try:
            answer = await self._workers.run([call.item for call in calls], batch.worker)
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
                results = [_stopped()] * len(calls)
        self._conclude(batch, outcome, results)
        if interrupted is not None:
            raise interrupted

    def _conclude(self, batch: Batch, outcome: Outcome, results: Sequence[Any]) -> None:
        del self._running[batch]
        overdue = self._overdue.pop(batch, None)
        if overdue is not None:
            overdue.cancel()
        self._now = now = max(self._now, self._clock())
        record = None
        try:
            record = self._scheduler.finish(batch, outcome, now)
        except PolicyError as error:
            self._give_up(error)
        else:
            self._audience.batch_ended(batch, record)
        calls = cast("list[Call[T, R]]", batch.jobs)
        if self._audience.of_jobs:
            self._audience.members_ended(calls, results, now, record)
        if self._next_batch_first:
            self._pump()
        ends = share_out(calls, results)
        self._ledger.enter_batch(batch, *ends)
        if not (self._next_batch_first or self._pump_due):
            self._pump_soon()

    def _turn_away(self, shed: Shed) -> None:
        expired = shed.reason is ShedReason.EXPIRED
        for call in cast("Sequence[Call[T, R]]", shed.jobs):
            waited = f"{self._now - call.arrived:.3f} s in the queue"
            if expired:
                call.fail(DeadlineExceeded(f"no worker was free in {waited}"))
            else:
                patience = call.deadline - call.arrived
                retry_after = self._scheduler.retry_after(call, self._now)
                message = f"after {waited} an answer within {patience:.3f} s is out of reach"
                call.fail(Overloaded(message, retry_after=retry_after))
        self._enter(shed.jobs, JobOutcome.EXPIRED if expired else JobOutcome.SHED)

    def _give_up(self, error: BatchingError) -> None:
        """Nobody will run what waits."""
        abandoned = cast("list[Call[T, R]]", self._scheduler.abandon())
        for call in abandoned:
            call.fail(error)
        self._enter(abandoned, JobOutcome.FAILED)

    def _enter(self, jobs: Sequence[Job], outcome: JobOutcome) -> None:
        """Some jobs have ended without a batch, or before theirs."""
        self._ledger.enter(outcome, len(jobs))
        if self._audience.of_jobs and jobs:
            self._audience.jobs_ended(jobs, outcome, self._clock())

    # ------------------------------------------------------------------------------- the workers

    async def _start(self) -> None:
        begin = self._clock()
        try:
            await self._workers.aclose()  # of a loop that ended without closing them
            await self._workers.start(self._workers_changed)
        except Exception as error:  # noqa: BLE001  whatever it is, nobody may wait for ever
            failure = error if isinstance(error, BatchingError) else _start_error(error)
            self._failure = failure
            self._give_up(failure)
        else:
            self._start_took = self._clock() - begin
            self.ready = True
            self._workers_changed()

    def _workers_changed(self) -> None:
        health = self._workers.health
        self._scheduler.permits.set_alive(health.living)
        self._failure = None if health.alive else health.failure
        if self._failure is not None:
            self._give_up(self._failure)
        elif self.ready and not health.alive:
            back = self._clock() + self._start_took
            hopeless = cast("list[Call[T, R]]", self._scheduler.abandon(due_before=back))
            for call in hopeless:
                call.fail(self._nobody())
            self._enter(hopeless, JobOutcome.SHED)
        self._pump_soon()

    def _check_return(self, call: Call[T, R]) -> None:
        """No worker is alive; let the call in only if one can be back in time."""
        if call.deadline < call.arrived + self._start_took:
            raise self._nobody()

    def _nobody(self) -> NoWorkers:
        took = self._start_took
        message = f"no worker is alive, and to start one took {took:.3f} s"
        return NoWorkers(message, retry_after=took)


def _stopped() -> WorkerLost:
    return WorkerLost("the dispatcher was stopped while it ran this request's batch")


def _start_error(error: Exception) -> WorkerStartError:
    wrapped = WorkerStartError(f"the workers could not be started: {error}")
    wrapped.__cause__ = error
    return wrapped


def _stops_us(error: BaseException) -> bool:
    """Whether the program wants this task to end, or only the handler said so."""
    cancelled = isinstance(error, asyncio.CancelledError) and _is_cancelled()
    return isinstance(error, KeyboardInterrupt) or cancelled


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and bool(task.cancelling())
