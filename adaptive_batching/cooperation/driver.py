"""Drives a scheduler from plain threads: one that waits for an answer runs the batches.

The first to wait leads: it takes the execution lock and asks the scheduler for a batch. Latecomers
wait for their answers and form the next batch meanwhile. When the leader has its own answer, it
hands over to one that still waits; so each thread that waits leads or is led, and none is stuck.

What several threads may touch is touched under one mutex, never held while the handler runs;
nothing relies on the interpreter's lock.
"""

from collections.abc import Callable, Sequence
from math import inf
from threading import Lock
from typing import Any, cast

from adaptive_batching.cooperation.handle import Handle
from adaptive_batching.cooperation.lock import ExecutionLock
from adaptive_batching.cooperation.turns import Turns
from adaptive_batching.cooperation.waiter import Waiter
from adaptive_batching.core import Batch, Hold, Job, Outcome, Scheduler, Shed, ShedReason
from adaptive_batching.errors import DeadlineExceeded, Overloaded, PolicyError, WorkerLost
from adaptive_batching.exception_text import describe
from adaptive_batching.workers.handler.results import (
    CallRaised,
    check_results,
    honest,
    raised_by_calls,
    ran_out_of_memory,
)

_AWAKE = 1e-3  # seconds; a thread that takes longer to wake will not be back for this batch


class ThreadDriver:
    """Drives a scheduler with the threads that wait for its batches.

    Args:
        handler: Runs a batch, under the lock.
        name: What the handler is called in messages.
        scheduler: Decides; nothing else may drive it.
        lock: Held while the handler runs.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        handler: Callable[[list[Any]], Sequence[Any]],
        name: str,
        scheduler: Scheduler,
        lock: ExecutionLock,
        clock: Callable[[], float],
    ) -> None:
        self.lock = lock
        self._handler = handler
        self._name = name
        self._scheduler = scheduler
        self._clock = clock
        self._mutex = Lock()  # of the scheduler, of the turns, and of whether a handle is done
        self._turns = Turns()

    def __repr__(self) -> str:
        return repr(self._scheduler)

    def submit(
        self, items: Sequence[Any], item_costs: Sequence[float], *, single: bool
    ) -> Handle[Any]:
        """Let some items of one caller wait for a batch.

        Args:
            items: What the handler gets in its list.
            item_costs: What each costs; empty where all cost the same.
            single: Whether the caller wants one result, and no list.

        Raises:
            Refused: They were turned away.
        """
        limits = self._scheduler.limits
        cost, filler = 0.0, -1
        if limits.costs is not None and item_costs:
            cost, filler = limits.costs.of_items(item_costs), limits.costs.filler(item_costs)
        with self._mutex:
            now = self._clock()
            deadline = now + limits.max_latency
            handle: Handle[Any] = Handle(self, items, now, deadline, cost, filler, single=single)
            self._scheduler.submit(handle)
            if self._turns.holding is not None:
                self._turns.holding.ring()
        return handle

    def attend(self, handle: Handle[Any], timeout: float | None) -> None:
        """Wait for a handle's answer, leading if no other does: what `Handle.result` asks for."""
        self.lock.check()
        until = inf if timeout is None else self._clock() + timeout
        if self._follow(handle, until):
            try:
                self._lead(handle, until)
            finally:
                with self._mutex:
                    self._turns.hand_over()
        if not handle.done:
            raise TimeoutError(f"no result within {timeout} s; ask again")

    # --------------------------------------------------------------------------- one that follows

    def _follow(self, handle: Handle[Any], until: float) -> bool:
        """Wait until the handle is done or its time is over, or until asked to lead: then True."""
        with self._mutex:
            if handle.done:
                return False
            waiter = self._turns.follow()
            if waiter is None:
                return True
            handle.waiters.append(waiter)
        try:
            waiter.wait(min(until, handle.deadline) - self._clock())
        except BaseException:  # Ctrl-C must not take the lead with it
            with self._mutex:
                self._leave(waiter, handle)
                if waiter.leads:
                    self._turns.hand_over()
            raise
        with self._mutex:
            self._leave(waiter, handle)
        return waiter.leads

    def _leave(self, waiter: Waiter, handle: Handle[Any]) -> None:
        self._turns.leave(waiter)
        handle.waiters.remove(waiter)
        self._expire(handle)

    def _expire(self, handle: Handle[Any]) -> None:
        """End a wait at its deadline, be it for a batch or for its end."""
        now = self._clock()
        if handle.done or now < handle.deadline:
            return
        queued = self._scheduler.cancel(handle)
        where = "in the queue" if queued else "for its batch to end"
        self._fail([handle], DeadlineExceeded(f"waited {now - handle.arrived:.3f} s {where}"))

    # ---------------------------------------------------------------------------- one that leads

    def _lead(self, handle: Handle[Any], until: float) -> None:
        """Run batches until the handle is done, or its time is over."""
        until = min(until, handle.deadline)
        self._gather(until)
        while not handle.done and self.lock.acquire(until - self._clock()):
            try:
                step = self._next()
                if isinstance(step, Batch):
                    outcome, results = self._run(step)
            finally:
                self.lock.release()
            if isinstance(step, Batch):
                self._conclude(step, outcome, results)
            else:
                self._hold(handle, min(step.until, until))
            if self._clock() >= until:
                break
        with self._mutex:
            self._expire(handle)

    def _gather(self, until: float) -> None:
        """Let threads that have just been answered wake, which may ask again at once.

        As an event loop decides after all that is due in a turn, so that what arrives together
        leaves together. Under the interpreter's lock they could not come otherwise: one that
        computes keeps it for 5 ms, and would run batch after batch of its own single items.
        """
        with self._mutex:
            if not self._turns.waking:
                return
            waiter = self._turns.gathering = Waiter()
        waiter.wait(min(_AWAKE, until - self._clock()))
        with self._mutex:
            self._turns.gathering = None

    def _next(self) -> Batch | Hold:
        """What the scheduler says, after those that it turns away."""
        with self._mutex:
            now = self._clock()
            try:
                step = self._scheduler.next(now)
                while isinstance(step, Shed):
                    self._turn_away(step, now)
                    step = self._scheduler.next(now)
            except PolicyError as error:
                self._fail(self._scheduler.abandon(), error)
                return Hold()
        return step

    def _run(self, batch: Batch) -> tuple[Outcome, Sequence[Any]]:
        """Call the handler; what it raises belongs to every member."""
        handles = cast("list[Handle[Any]]", batch.jobs)
        items = [item for handle in handles for item in handle.items]
        try:
            results = check_results(self._handler(items), batch.size, self._name)
        except BaseException as error:  # noqa: BLE001  callers get it; an exit is raised again below
            results = [CallRaised(error)] * batch.size
        raised = raised_by_calls(results)
        if not raised:
            return Outcome.DONE, results
        told = [_error_for_callers(each) if type(each) is CallRaised else each for each in results]
        out_of_memory = any(map(ran_out_of_memory, map(honest, raised)))
        outcome = Outcome.OUT_OF_MEMORY if out_of_memory else Outcome.FAILED
        exits = [each for each in raised if not issubclass(type(each), Exception)]
        if exits:  # Ctrl-C and the like are the leader's alone
            self._conclude(batch, outcome, told)
            raise exits[0]
        return outcome, told

    def _conclude(self, batch: Batch, outcome: Outcome, results: Sequence[Any]) -> None:
        """Give each member its result, and wake the thread that waits for it."""
        with self._mutex:
            now = self._clock()
            try:
                self._scheduler.finish(batch, outcome, now)
            except PolicyError as error:
                self._fail(self._scheduler.abandon(), error)
            first = 0
            for handle in cast("list[Handle[Any]]", batch.jobs):
                if not handle.done and now > handle.deadline:
                    self._expire(handle)  # too late is no result, not for its runner either
                elif not handle.done:
                    handle.succeed(results[first : first + handle.size])
                    self._turns.wake(handle.waiters)
                first += handle.size

    def _hold(self, handle: Handle[Any], until: float) -> None:
        """Let more come, at most until then."""
        with self._mutex:
            if handle.done:
                return
            waiter = self._turns.holding = Waiter()
        waiter.wait(until - self._clock())
        with self._mutex:
            self._turns.holding = None

    # ------------------------------------------------------------------------- under the mutex

    def _turn_away(self, shed: Shed, now: float) -> None:
        for job in shed.jobs:
            waited = f"{now - job.arrived:.3f} s in the queue"
            error: Exception
            if shed.reason is ShedReason.EXPIRED:
                error = DeadlineExceeded(f"no batch could leave in {waited}")
            else:
                message = f"after {waited} no answer would come by the deadline"
                error = Overloaded(message, retry_after=self._scheduler.retry_after(job, now))
            self._fail([job], error)

    def _fail(self, jobs: Sequence[Job], error: BaseException) -> None:
        for handle in cast("Sequence[Handle[Any]]", jobs):
            handle.fail(error)
            self._turns.wake(handle.waiters)


def _error_for_callers(raised: CallRaised) -> Exception:
    """What callers get of an error that the call of their items raised."""
    error = raised.error
    if issubclass(type(error), Exception):  # it may raise if it is asked for its class
        return cast("Exception", error)
    return WorkerLost(f"the thread that ran this batch was stopped: {describe(error)}")
