"""Carries out on one event loop what the scheduler decides: futures, one timer, workers.

The scheduler decides, the driver does. `_pump` runs once per turn of the loop after submits, ends
of batches and the timer, so that what arrives together leaves together; a call costs a future and
a queue entry, not a task.
"""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from math import inf
from typing import Any, Generic, TypeVar, cast

from adaptive_batching.core import (
    Batch,
    Hold,
    Job,
    JobOutcome,
    Limits,
    Policy,
    Reason,
    Scheduler,
    Shed,
    ShedReason,
    Station,
)
from adaptive_batching.dispatcher.attempt import Ended, is_cancelled
from adaptive_batching.dispatcher.audience import Audience, Observer
from adaptive_batching.dispatcher.calls import Call, share_out
from adaptive_batching.dispatcher.crew import Crew
from adaptive_batching.dispatcher.deadlines import Deadlines
from adaptive_batching.dispatcher.failures import may_run_again, told_now
from adaptive_batching.dispatcher.laggards import Laggards
from adaptive_batching.dispatcher.ledger import Ledger, Stats
from adaptive_batching.errors import (
    BatchingError,
    DeadlineExceeded,
    Draining,
    Overloaded,
    PolicyError,
    QueueFull,
    Refused,
)
from adaptive_batching.workers.interface import Workers

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
        self._laggards = Laggards(workers, scheduler.limits.max_batch_size)
        self._next_batch_first = next_batch_first
        self._ledger = Ledger()
        self._ledgers = {key: Ledger() for key in scheduler.classes}
        self._context = contextvars.Context()  # no batch runs in its first caller's context
        self._now = -inf
        self.concluded = -inf
        """When the last batch ended (monotonic seconds)."""
        self._pump_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._running: dict[Batch, asyncio.Task[None]] = {}
        self._deadlines = Deadlines(loop, partial(self._enter, outcome=JobOutcome.EXPIRED))
        self._drained = asyncio.Event()
        self._stopped = False  # what runs is being cancelled, and nothing may begin any more
        self.crew = Crew(workers, clock, self._workers_changed)
        """Whether there are workers; asked for every call."""
        self._starting = loop.create_task(self._start(), context=self._context)

    def __repr__(self) -> str:
        return f"<Driver running={len(self._running)} {self._scheduler!r}>"

    @property
    def closing(self) -> bool:
        """Whether it takes no more calls."""
        return self._scheduler.draining

    def station(self, now: float, upstream: int) -> Station:
        """What is predicted of it as one stage among others; see `Dispatcher.station`."""
        return Station.of(self._scheduler, now, upstream)

    async def _start(self) -> None:
        await self.crew.start()
        timings = self._workers.health.warm_up
        self._scheduler.rehearse((each.worker, each.size, each.duration) for each in timings)

    async def started(self) -> None:
        """Wait until the workers are ready.

        Raises:
            WorkerStartError: They could not be started.
            Draining: They are not wanted any more.
        """
        try:
            await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self.closing and not is_cancelled():
                raise Draining("the dispatcher was closed while its workers started") from None
            raise
        if self.crew.failure is not None:
            raise self.crew.failure

    def admit(self, call: Call[T, R]) -> None:
        """Let a call wait for its batch; its future will have the answer.

        Raises:
            Refused: It was turned away.
            WorkerStartError: There are no workers, nor will there be.
        """
        if self.crew.failure is not None:
            raise self.crew.failure
        if self._audience.companions:
            self._audience.call_made(call)
        try:
            if not self._scheduler.permits.capacity:
                self.crew.check_return(call)
            self._scheduler.submit(call)
        except Refused as refusal:
            full = isinstance(refusal, QueueFull)
            self._enter([call], JobOutcome.QUEUE_FULL if full else JobOutcome.SHED)
            scheduler = self._scheduler
            if (scheduler.permits.idle or scheduler.watchful) and not self._pump_due:
                self._pump_soon()  # it has come all the same, which may be news for those who wait
            raise
        if not self._pump_due:
            self._pump_soon()

    def refuse_unseen(self, patience: float) -> float | None:
        """Seconds until it is worth to come again; None for a call that has to be looked at."""
        scheduler, now = self._scheduler, self._clock()
        if not self.crew.ready or not scheduler.permits.capacity or self.closing:
            return None
        wait = scheduler.refuse_unseen(now, patience)
        if wait is not None:
            self._enter([Job(now, 1, now + patience)], JobOutcome.SHED)
            if scheduler.watchful and not self._pump_due:
                self._pump_soon()
        return wait

    def withdraw(self, call: Call[T, R]) -> None:
        """Its caller has gone."""
        if self._scheduler.cancel(call):
            self._enter([call], JobOutcome.CANCELLED)

    def retune(self, policy: Policy, limits: Limits) -> None:
        """Decide by another policy and other limits from now on."""
        self._scheduler.retune(policy, limits)
        self._pump_soon()

    def retune_class(self, key: Hashable, limits: Limits) -> None:
        """Decide by other limits about one class of jobs."""
        self._scheduler.retune_class(key, limits)
        self._pump_soon()

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
            self._stopped = True
            self._give_up(Draining("the dispatcher was closed before this request's turn came"))
            tasks = list(self._running.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for batch in list(self._running):  # cancelled before their first step
                self._conclude(batch, Ended.stopped(batch))
        self._starting.cancel()
        if self._timer is not None:
            self._timer.cancel()
        await self._workers.aclose()

    def stats(self) -> Stats:
        """What happened so far and what waits."""
        return Stats.of(self._scheduler, self._ledger, self._clock())

    def stats_of(self, key: Hashable) -> Stats:
        """The same of one class of jobs."""
        return Stats.of_class(self._scheduler, key, self._ledgers[key], self._clock())

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
        context = None
        if self._audience.companions:
            context = self._context.copy()
            context.run(self._audience.batch_left, batch)
        self._running[batch] = self.loop.create_task(self._run(batch), context=context)
        self._deadlines.watch(batch)

    async def _run(self, batch: Batch) -> None:
        """Run one batch; whatever happens, its permit returns and each member gets one outcome."""
        calls = cast("list[Call[T, R]]", batch.jobs)
        try:
            answer = await self._workers.run([call.item for call in calls], batch.worker)
            ended = Ended.returned(batch, answer)
        except BaseException as error:  # noqa: BLE001  no member may be left waiting
            ended = Ended.raising(batch, error)
        self._conclude(batch, ended)
        if ended.interrupted is not None:
            raise ended.interrupted

    def _conclude(self, batch: Batch, ended: Ended) -> None:
        """Return the permit and answer the members, but for those who run again."""
        del self._running[batch]
        self._deadlines.forget(batch)
        self._now = self.concluded = now = max(self._now, self._clock())
        record = None
        calls, results = cast("list[Call[T, R]]", batch.jobs), ended.results
        try:
            record = self._scheduler.finish(batch, ended.outcome, now)
        except PolicyError as error:
            self._give_up(error)
        else:
            if ended.raised is not None and self._may_rerun(ended.raised):
                calls, results = self._rerun(batch, ended, ended.raised)
            self._audience.batch_ended(batch, record)
            if self._scheduler.permits.uneven or self._laggards.since:
                self._laggards.look(self._scheduler.permits.workers, now)
        if self._audience.of_jobs:
            self._audience.members_ended(calls, results, now, record)
        if self._next_batch_first:
            self._pump()
        done, failed, cancelled = share_out(calls, results)
        for ledger in self._ledgers_of(batch.key):
            ledger.enter_batch(batch, done, failed, cancelled)
            if batch.reason is Reason.BISECT and ended.raised is None:
                ledger.enter_rerun(done, failed)
        if not (self._next_batch_first or self._pump_due):
            self._pump_soon()

    def _may_rerun(self, raised: BaseException) -> bool:
        """Whether there will be workers, and another run might not raise this."""
        hopeful = not self._stopped and self.crew.failure is None
        return hopeful and may_run_again(raised)

    def _rerun(
        self, batch: Batch, ended: Ended, raised: BaseException
    ) -> tuple[list[Call[T, R]], list[Any]]:
        """Ask who of a failed batch runs again; return the others, and what they are told."""
        calls = cast("list[Call[T, R]]", batch.jobs)
        members = list(zip(calls, ended.results, strict=True))
        suspects = [call for call, result in members if result is raised and not call.future.done()]
        start = self._now if self._scheduler.permits.capacity else self.crew.back(self._now)
        verdicts = self._scheduler.rerun(batch, suspects, ended.outcome, self._now, start)
        for ledger in self._ledgers_of(batch.key):
            ledger.enter_verdicts(verdicts.values())
        told = told_now(members, verdicts, raised)
        return [call for call, _ in told], [result for _, result in told]

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
        if self._ledgers:
            for key, count in Counter(job.key for job in jobs).items():
                self._ledgers[key].enter(outcome, count)
        if self._audience.of_jobs and jobs:
            self._audience.jobs_ended(jobs, outcome, self._clock())

    def _ledgers_of(self, key: Hashable) -> Iterable[Ledger]:
        """Where it is entered what becomes of a batch: with all, and with its class."""
        return (self._ledger, self._ledgers[key]) if self._ledgers else (self._ledger,)

    def _workers_changed(self) -> None:
        crew, scheduler = self.crew, self._scheduler
        health = self._workers.health
        scheduler.permits.set_alive(health.living, health.identities)
        if crew.failure is not None:
            self._give_up(crew.failure)
        elif crew.ready and not scheduler.permits.capacity:
            back = crew.back(self._clock())
            hopeless = cast("list[Call[T, R]]", scheduler.abandon(due_before=back))
            for call in hopeless:
                call.fail(crew.nobody())
            self._enter(hopeless, JobOutcome.SHED)
        self._pump_soon()
