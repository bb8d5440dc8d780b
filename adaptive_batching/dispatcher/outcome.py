"""One run of one batch: whatever comes of it, there is something to tell each of its members."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from adaptive_batching.core import Batch, Outcome
from adaptive_batching.dispatcher.failures import all_failed, outcome_of
from adaptive_batching.errors import WorkerLost
from adaptive_batching.workers.results import BatchRaised, check_results


@dataclass(slots=True)
class Ended:
    """How a batch ended.

    Attributes:
        outcome: What the scheduler learns from it.
        results: What each member is told: a result or an exception.
        raised: What the batch as a whole raised; None if it returned, or was stopped.
        interrupted: What is to end the program, or this dispatcher.
    """

    outcome: Outcome
    results: Sequence[Any]
    raised: BaseException | None = None
    interrupted: BaseException | None = None

    @classmethod
    def returned(cls, batch: Batch, answer: Any) -> Self:
        """The worker answered.

        Raises:
            BatchFunctionError: Not with a result for each member.
        """
        results = check_results(answer, len(batch.jobs))
        return cls(Outcome.FAILED if all_failed(results) else Outcome.DONE, results)

    @classmethod
    def raising(cls, batch: Batch, error: BaseException) -> Self:
        """The worker raised, or the program wants us to end."""
        if isinstance(error, BatchRaised):
            return cls(Outcome.FAILED, error.results, error.error)
        if _stops_us(error):
            return cls.stopped(batch, error)
        return cls(outcome_of(error), [error] * len(batch.jobs), error)

    @classmethod
    def stopped(cls, batch: Batch, interrupted: BaseException | None = None) -> Self:
        """The dispatcher was stopped meanwhile."""
        error = WorkerLost("the dispatcher was stopped while it ran this request's batch")
        return cls(Outcome.FAILED, [error] * len(batch.jobs), interrupted=interrupted)


def is_cancelled() -> bool:
    """Whether somebody wants the present task to end."""
    task = asyncio.current_task()
    return task is not None and bool(task.cancelling())


def _stops_us(error: BaseException) -> bool:
    """Whether the program wants this task to end, or only the handler said so."""
    cancelled = isinstance(error, asyncio.CancelledError) and is_cancelled()
    return isinstance(error, KeyboardInterrupt) or cancelled
