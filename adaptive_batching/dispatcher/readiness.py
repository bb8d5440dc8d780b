"""The workers of one driver: when they are ready, why there are none, and when one may be back."""

from collections.abc import Callable

from adaptive_batching.core import Job, Scheduler
from adaptive_batching.errors import BatchingError, NoWorkers, WorkerStartError
from adaptive_batching.workers.interface import Workers


class Readiness:
    """Starts workers, remembers how that went, and keeps the scheduler's permits as they are.

    Args:
        workers: Where batches run.
        scheduler: Has a permit for each that is alive.
        clock: Monotonic seconds.
        on_change: Called when one has come or gone.

    Attributes:
        ready: Whether they have been ready.
        failure: Why there is none, nor will there be; None while there may be one.
    """

    def __init__(
        self,
        workers: Workers,
        scheduler: Scheduler,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self.ready = False
        self.failure: BatchingError | None = None
        self._workers = workers
        self._scheduler = scheduler
        self._clock = clock
        self._on_change = on_change
        self._start_took = 0.0  # seconds; a worker that died is back no sooner

    async def start(self) -> None:
        """Start them; `ready` or `failure` says how it went."""
        begin = self._clock()
        try:
            await self._workers.aclose()  # of a loop that ended without closing them
            await self._workers.start(self._changed)
        except Exception as error:  # noqa: BLE001  whatever it is, no call may wait for ever
            self.failure = error if isinstance(error, BatchingError) else _start_error(error)
            self._tell()
        else:
            self._start_took = self._clock() - begin
            self.ready = True
            self._changed()
        timings = self._workers.health.warm_up
        self._scheduler.rehearse(
            (each.worker, each.size, each.duration, each.cost) for each in timings
        )

    def back(self, now: float) -> float:
        """When there is a worker again (seconds), at the earliest: none is alive now."""
        return max(now + self._start_took, self._workers.health.back_at)

    def check_return(self, job: Job) -> None:
        """No worker is alive: let a new job in only if one can be back in time.

        Raises:
            NoWorkers: None can.
            WorkerStartError: There will be none.
        """
        if self.failure is not None:
            raise self.failure
        if job.deadline < self.back(job.arrived):
            raise self.no_workers()

    def no_workers(self) -> NoWorkers:
        """The error of calls that can't wait for a worker's return."""
        now = self._clock()
        wait = self.back(now) - now
        if self._workers.health.back_at > now:  # there are some, but they want to be left alone
            message = f"no worker takes a batch before {wait:.3f} s are over"
        else:
            message = f"no worker is alive, nor will one be for {wait:.3f} s"
        return NoWorkers(message, retry_after=wait)

    def _changed(self) -> None:
        health = self._workers.health
        self.failure = None if health.alive else health.failure
        self._tell()

    def _tell(self) -> None:
        health = self._workers.health
        self._scheduler.permits.set_alive(health.living, health.identities)
        self._on_change()


def _start_error(error: Exception) -> WorkerStartError:
    wrapped = WorkerStartError(f"the workers could not be started: {error}")
    wrapped.__cause__ = error
    return wrapped
