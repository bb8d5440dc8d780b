"""Members of a batch that failed: who of them runs again, and what the others are told."""

from collections.abc import Sequence
from typing import Any, cast

from adaptive_batching.core import Batch, Scheduler
from adaptive_batching.dispatcher.calls import Call
from adaptive_batching.dispatcher.counters import Ledgers
from adaptive_batching.dispatcher.failures import may_run_again, told_now
from adaptive_batching.dispatcher.outcome import Ended
from adaptive_batching.dispatcher.readiness import Crew


class Reruns:
    """Asks the scheduler about those for whom another run might end better.

    Args:
        scheduler: Knows of the batch's end already.
        crew: The workers.
        ledgers: Where it is entered what becomes of whom.

    Attributes:
        stopped: Whether what runs is being cancelled, and nothing may begin any more.
    """

    __slots__ = ("_crew", "_ledgers", "_scheduler", "stopped")

    def __init__(self, scheduler: Scheduler, crew: Crew, ledgers: Ledgers) -> None:
        self._scheduler = scheduler
        self._crew = crew
        self._ledgers = ledgers
        self.stopped = False

    def sift(
        self, batch: Batch, ended: Ended, raised: BaseException, now: float
    ) -> tuple[Sequence[Call[Any, Any]], Sequence[Any]]:
        """Let members of a batch wait again.

        Args:
            batch: The one that has ended.
            ended: How it did.
            raised: What it raised as a whole; who is told of something else does not run again.
            now: The present (seconds).

        Returns:
            The others, and what they are told.
        """
        calls = cast("list[Call[Any, Any]]", batch.jobs)
        if not self._may_help(raised):
            return calls, ended.results
        members = list(zip(calls, ended.results, strict=True))
        suspects = [call for call, result in members if result is raised and not call.future.done()]
        start = now if self._scheduler.permits.capacity else self._crew.back(now)
        verdicts = self._scheduler.rerun(batch, suspects, ended.outcome, now, start)
        for ledger in self._ledgers.of(batch.key):
            ledger.enter_verdicts(verdicts.values())
        told = told_now(members, verdicts, raised)
        return [call for call, _ in told], [result for _, result in told]

    def _may_help(self, raised: BaseException) -> bool:
        """Whether there will be workers, and another run might not raise this."""
        hopeful = not self.stopped and self._crew.failure is None
        return hopeful and may_run_again(raised)
