"""A request ends once: its caller is told, the counters count it, the observers hear of it."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from adaptive_batching.core import Batch, Job, JobOutcome, Reason, Scheduler, Shed, ShedReason
from adaptive_batching.dispatcher.calls import Call, share_out
from adaptive_batching.dispatcher.counters import CountersByClass
from adaptive_batching.dispatcher.observers import Observers
from adaptive_batching.dispatcher.outcome import Ended
from adaptive_batching.errors import BatchingError, DeadlineExceeded, Overloaded


class Completion:
    """How the requests of one driver end.

    Args:
        scheduler: Holds the queues in which they wait.
        observers: Hear of it.
        clock: Monotonic seconds.

    Attributes:
        counters: What has become of them.
    """

    __slots__ = ("_clock", "_observers", "_scheduler", "counters")

    def __init__(
        self, scheduler: Scheduler, observers: Observers, clock: Callable[[], float]
    ) -> None:
        self._scheduler = scheduler
        self._observers = observers
        self._clock = clock
        self.counters = CountersByClass(scheduler.classes)

    def enter(self, jobs: Sequence[Job], outcome: JobOutcome) -> None:
        """Some jobs, of which their callers know, have ended without a batch, or before theirs."""
        self.counters.enter(jobs, outcome)
        if self._observers.of_jobs and jobs:
            self._observers.jobs_ended(jobs, outcome, self._clock())

    def turn_away(self, shed: Shed, now: float) -> None:
        """Some have left the queue unanswered, as the scheduler said."""
        expired = shed.reason is ShedReason.EXPIRED
        for call in cast("Sequence[Call[Any, Any]]", shed.jobs):
            waited = f"{now - call.arrived:.3f} s in the queue"
            if expired:
                call.fail(DeadlineExceeded(f"no worker was free in {waited}"))
            else:
                patience = call.deadline - call.arrived
                retry_after = self._scheduler.retry_after(call, now)
                message = (
                    f"after {waited} an answer within max_latency={patience:.3f} s is out of reach"
                )
                call.fail(Overloaded(message, retry_after=retry_after))
        self.enter(shed.jobs, JobOutcome.EXPIRED if expired else JobOutcome.SHED)

    def give_up(self, error: BatchingError) -> bool:
        """Fail all that waits, for it will not run; returns whether there was anything."""
        abandoned = cast("Sequence[Call[Any, Any]]", self._scheduler.abandon())
        for call in abandoned:
            call.fail(error)
        self.enter(abandoned, JobOutcome.FAILED)
        return bool(abandoned)

    def answer(
        self,
        batch: Batch,
        ended: Ended,
        calls: Sequence[Call[Any, Any]],
        results: Sequence[Any],
        now: float,
    ) -> None:
        """A batch has ended, now: give its members what is theirs, but for those that run again."""
        done, late, failed, cancelled = share_out(calls, results, now)
        for counters in self.counters.of(batch.key):
            counters.enter_batch(batch, done, late, failed, cancelled)
            if batch.reason is Reason.BISECT:  # on what raised again, the scheduler has its verdict
                counters.enter_rerun(done + late, 0 if ended.raised else failed)
