"""Carries out on one event loop what the scheduler decides: calls, one timer, workers.

The scheduler decides, the driver does. `_pump` runs once per turn of the loop after submits, ends
of batches and the timer, so that what arrives together leaves together; a call costs a callback and
a queue entry, not a task.
"""

import asyncio
import contextvars
import logging
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from functools import partial
from math import inf, nan
from typing import Generic, TypeVar, cast

from adaptive_batching.core import (
    Batch,
    Hold,
    Job,
    JobOutcome,
    Limits,
    Policy,
    Priority,
    Scheduler,
    Shed,
    Station,
)
from adaptive_batching.dispatcher.calls import LEFT, PENDING, Call, OnEnd, TenantCall, job_outcome
from adaptive_batching.dispatcher.completion import Completion
from adaptive_batching.dispatcher.observers import Observer, Observers
from adaptive_batching.dispatcher.outcome import Ended, may_run_again, told_now
from adaptive_batching.dispatcher.readiness import Readiness
from adaptive_batching.dispatcher.running import RunningBatches
from adaptive_batching.dispatcher.slow_workers import SlowWorkers
from adaptive_batching.dispatcher.stats import Stats
from adaptive_batching.errors import Draining, JobTooLarge, PolicyError
from adaptive_batching.units import Duration, patience_of
from adaptive_batching.workers.handler.results import is_cancelled
from adaptive_batching.workers.interface import Workers

T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger("adaptive_batching")


class Driver(Generic[T, R]):
    """Drives a scheduler on one event loop, from its first call to its end.

    Args:
        loop: The running loop.
        scheduler: Decides; nothing else may drive it.
        workers: Where batches run; started at once.
        clock: Monotonic seconds, the loop's own or as good.
        observers: Told about every batch; a `JobObserver` about every request as well.
        next_batch_first: Whether the next batch leaves before the last one is answered.
        tells_tenants_apart: Whether calls carry their tenant and priority.
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
        tells_tenants_apart: bool,
    ) -> None:
        self.loop = loop
        self._scheduler = scheduler
        self._workers = workers
        self._clock = clock
        self._observers = Observers(observers)
        self._slow_workers = SlowWorkers(workers, scheduler.limits.max_batch_size)
        self._next_batch_first = next_batch_first
        self._tells_tenants_apart = tells_tenants_apart
        self._completion = Completion(scheduler, self._observers, clock)
        self._context = contextvars.Context()  # no batch runs in its first caller's context
        self._now = -inf
        self.concluded = -inf
        """When the last batch ended (monotonic seconds)."""
        self._pump_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._logged = ""  # the policy's last mistake of which no caller was told
        on_expired = partial(self._completion.enter, outcome=JobOutcome.EXPIRED)
        self._running = RunningBatches(
            loop, self._context, workers, self._observers, self._conclude, on_expired
        )
        self._drained = asyncio.Event()
        self.readiness = Readiness(workers, scheduler, clock, self._workers_changed)
        """Whether there are workers; asked for every call."""
        self._stopped = False  # what runs is being cancelled, and nothing may begin any more
        self._until_loop_ends = self._stopped_with_the_loop()
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
        if self.readiness.failure is not None:
            raise self.readiness.failure

    def admit(
        self,
        on_end: OnEnd,
        item: T,
        max_latency: Duration | None,
        key: Hashable,
        size: int,
        tenant: Hashable,
        priority: Priority,
        cost: float | Exception,
    ) -> Call[T, R]:
        """Let an item wait for its batch; `on_end` is told of the outcome in a later turn.

        Raises:
            Refused: It was turned away.
            ValueError: `max_latency` is not positive.
            WorkerStartError: There are no workers, nor will there be.
            Exception: `cost` is one.
        """
        if max_latency is None:
            max_latency = self._scheduler.limits.max_latency
        elif type(max_latency) is not float or not max_latency > 0:
            max_latency = patience_of(max_latency)
        now = self._clock()
        due = now + max_latency
        unknown: Exception | None = None
        if isinstance(cost, Exception):
            unknown, cost = cost, cost.cost if isinstance(cost, JobTooLarge) else nan
        call: Call[T, R]
        if self._tells_tenants_apart:
            call = TenantCall(item, on_end, now, size, due, key, tenant, priority, cost)
        else:
            call = Call(item, on_end, now, size, due, key, cost)
        if self._observers.companions:
            self._observers.call_made(call)
        if unknown is not None:
            self._turn_away([call], job_outcome(unknown))
            raise unknown
        try:
            if not self._scheduler.permits.capacity:
                self.readiness.check_return(call)
            self._scheduler.submit(call)
        except Exception as error:
            self._turn_away([call], job_outcome(error))
            raise
        if not self._pump_due:
            self._pump_soon()
        return call

    def _turn_away(self, jobs: Sequence[Job], outcome: JobOutcome) -> None:
        """Count jobs that are not let in; that they came may be news for those that wait."""
        self._completion.enter(jobs, outcome)
        scheduler = self._scheduler
        if (scheduler.permits.idle or scheduler.watchful) and not self._pump_due:
            self._pump_soon()

    def refuse_unseen(self, patience: float) -> float | None:
        """Seconds until it is worth to come again; None for a call that has to be looked at."""
        scheduler, now = self._scheduler, self._clock()
        if not self.readiness.ready or not scheduler.permits.capacity or self.closing:
            return None
        wait = scheduler.refuse_unseen(now, patience)
        if wait is not None:
            self._turn_away([self._unseen(now, now + patience)], JobOutcome.SHED)
        return wait

    def fail_unseen(self, error: Exception, keys: Sequence[Hashable], patience: float) -> None:
        """Count calls that ended with an error before they could be submitted."""
        now = self._clock()
        jobs = [self._unseen(now, now + patience, key) for key in keys]
        self._turn_away(jobs, job_outcome(error))

    def _unseen(self, now: float, deadline: float, key: Hashable = None) -> Job:
        """A job of which no more is known."""
        cost = 0.0 if self._scheduler.limits.costs is None else nan  # which it would have had
        return Job(now, 1, deadline, key, cost=cost)

    def withdraw(self, call: Call[T, R]) -> None:
        """Mark a call as left by its caller, and take it out of the queue."""
        if call.outcome is PENDING:
            call.outcome = LEFT
        self.take_out(call, JobOutcome.CANCELLED)

    def take_out(self, call: Call[T, R], outcome: JobOutcome) -> None:
        """Take a call out of the queue, if it waits, and count it as that."""
        if self._scheduler.cancel(call):
            call.outcome = LEFT
            self._completion.enter([call], outcome)
            if self.closing and not self._pump_due:
                self._pump_soon()  # it may have been the last, with no worker to end the wait

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
        self._pump_soon()
        try:
            async with asyncio.timeout(timeout):
                await self._drained.wait()
        except TimeoutError:
            await self._stop()
        await self._until_loop_ends.aclose()
        self._starting.cancel()
        await asyncio.gather(self._starting, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        await self._workers.aclose()

    def stats(self) -> Stats:
        """What happened so far and what waits."""
        return Stats.of(self._scheduler, self._completion.counters.whole, self._clock())

    def stats_of(self, key: Hashable) -> Stats:
        """Return the stats of one class of jobs."""
        counters = self._completion.counters[key]
        return Stats.of_class(self._scheduler, key, counters, self._clock())

    async def _start(self) -> None:
        await anext(self._until_loop_ends)
        await self.readiness.start()

    async def _stopped_with_the_loop(self) -> AsyncGenerator[None]:
        """Wait for the end of the loop, which closes its generators: no batch outlives it."""
        try:
            yield
        finally:
            await self._stop()

    async def _stop(self) -> None:
        """Give up what waits and what runs."""
        self._stopped = True
        self._scheduler.drain()
        closed = Draining("the dispatcher was closed before this request's turn came")
        self._completion.give_up(closed)
        await self._running.stop()

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
                    self._running.launch(step)
                else:
                    turned_away.append(step)
                step = self._scheduler.next(now)
        except PolicyError as error:
            self._give_up(error)
        else:
            if self._timer is not None or step.until < inf:
                self._arm(step.until)
        for shed in turned_away:  # now it is known which workers are busy, so when to come again
            self._completion.turn_away(shed, now)
        scheduler = self._scheduler
        if scheduler.draining and not (scheduler.items or scheduler.permits.running):
            self.loop.call_soon(self._drained.set)  # after the answers of the batch that has ended

    def _arm(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if until < inf:
            self._timer = self.loop.call_at(until, self._pump, until, context=self._context)

    def _conclude(self, batch: Batch, ended: Ended) -> None:
        """Return the permit and answer the members, but for those that run again."""
        self._now = self.concluded = now = max(self._now, self._clock())
        record = None
        calls, results = cast("Sequence[Call[T, R]]", batch.jobs), ended.results
        failed = self._curable(calls, ended)
        start = now if self._scheduler.permits.capacity else self.readiness.back(now)
        try:
            record, verdicts = self._scheduler.finish(batch, ended.outcome, now, failed, start)
        except PolicyError as error:
            self._give_up(error)
        else:
            if failed:
                calls, results = told_now(calls, results, verdicts)
                self._completion.counters.enter_verdicts(batch.key, verdicts.values())
            self._observers.batch_ended(batch, record)
            if self._scheduler.permits.uneven or self._slow_workers.since:
                self._slow_workers.look(self._scheduler.permits.workers, now)
        if self._observers.of_jobs:
            self._observers.members_ended(calls, results, now, record)
        if self._next_batch_first:
            self._pump()  # the batch is on its way before the loop turns to the answers
            self.loop.call_soon(self._completion.answer, batch, ended, calls, results, now)
            return
        self._completion.answer(batch, ended, calls, results, now)
        if not self._pump_due:
            self._pump_soon()

    def _curable(self, calls: Sequence[Call[T, R]], ended: Ended) -> Sequence[Call[T, R]]:
        """The members that another run may help: they got what a call raised."""
        if not ended.raised or self._stopped or self.readiness.failure:
            return ()
        results = ended.results
        members = [place for place in ended.raised if may_run_again(results[place])]
        return [call for place in members if (call := calls[place]).outcome is PENDING]

    def _give_up(self, error: PolicyError) -> None:
        """Tell all callers that wait what the policy did; and the log if there are none, once."""
        if not self._completion.give_up(error) and str(error) != self._logged:
            self._logged = str(error)
            _log.error("%s", error)

    def _workers_changed(self) -> None:
        readiness, scheduler = self.readiness, self._scheduler
        if readiness.failure is not None:
            self._completion.give_up(readiness.failure)
        elif readiness.ready and not scheduler.permits.capacity:
            back = readiness.back(self._clock())
            hopeless = cast("Sequence[Call[T, R]]", scheduler.abandon(due_before=back))
            for call in hopeless:
                call.fail(readiness.no_workers())
            self._completion.enter(hopeless, JobOutcome.SHED)
        self._pump_soon()
