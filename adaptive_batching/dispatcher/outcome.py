"""The outcome of one run of a batch, what each member gets of it, and if another run may help."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from adaptive_batching.core import Batch, Outcome, Verdict
from adaptive_batching.errors import (
    BatchingError,
    DeadlineExceeded,
    HandlerError,
    Overloaded,
    Quarantined,
    UpstreamBusy,
    UpstreamLost,
    UpstreamMismatch,
    UpstreamOutOfMemory,
    UpstreamRefusal,
    UpstreamTooLarge,
    UpstreamUnreachable,
    WorkerLost,
    WorkerTimeout,
)
from adaptive_batching.exception_text import begin_in_users_code
from adaptive_batching.workers.handler.results import (
    CallRaised,
    check_results,
    hold_exceptions,
    honest,
    is_ctrl_c,
    is_stopped,
    ran_out_of_memory,
)

T = TypeVar("T")

_OUTCOMES: Sequence[tuple[type[BatchingError], Outcome]] = (  # the first that it is
    (WorkerTimeout, Outcome.OVERLOADED),
    (WorkerLost, Outcome.LOST),
    (UpstreamBusy, Outcome.REFUSED),
    (UpstreamUnreachable, Outcome.UNSENT),
    (UpstreamLost, Outcome.UNANSWERED),
    (UpstreamMismatch, Outcome.UNSHARED),
    (UpstreamOutOfMemory, Outcome.OUT_OF_MEMORY),
)
_UNRESOLVED = frozenset({Verdict.TOO_LATE, Verdict.OVER_BUDGET})
_COME_AGAIN = 1.0  # seconds, in which ten more runs are granted
_CURABLE = (  # of ours, those that another run may cure
    HandlerError,
    WorkerLost,
    UpstreamRefusal,
    UpstreamOutOfMemory,
    UpstreamBusy,
    UpstreamLost,
    UpstreamMismatch,
    UpstreamTooLarge,
)


class Ended(NamedTuple):
    """How a batch ended.

    Attributes:
        outcome: What the scheduler learns from it.
        results: What each member is told: a result or an exception.
        raised: The places of the members whose call raised; none if all of it returned, or was
            stopped.
        interrupted: What is to end the program, or this dispatcher.
    """

    outcome: Outcome
    results: Sequence[Any]
    raised: Sequence[int] = ()
    interrupted: BaseException | None = None

    @classmethod
    def returned(cls, batch: Batch, answer: Any, handler: str) -> Self:
        """The worker answered; `handler` is the name of its handler, if that is known.

        Raises:
            BatchFunctionError: Not with a result for each member.
        """
        results = check_results(answer, len(batch.jobs), handler)
        if not hold_exceptions(results):
            return cls(Outcome.DONE, results)
        failed = [issubclass(type(result), BaseException) for result in results]
        told = [
            _its_error(each) if is_error else each
            for each, is_error in zip(results, failed, strict=True)
        ]
        raised = [place for place, each in enumerate(results) if type(each) is CallRaised]
        if raised:
            return cls(_together(told[place] for place in raised), told, raised)
        # An error for each: as a rule because none of the items was run.
        return cls(Outcome.FAILED if all(failed) else Outcome.DONE, told)

    @classmethod
    def raising(cls, batch: Batch, error: BaseException) -> Self:
        """The worker raised, or the program wants us to end."""
        error = honest(error)
        begin_in_users_code(error)
        if _stops_us(error):
            return cls.stopped(batch, error)
        members = len(batch.jobs)
        return cls(outcome_of(error), [error] * members, range(members))

    @classmethod
    def stopped(cls, batch: Batch, interrupted: BaseException | None = None) -> Self:
        """The dispatcher was stopped meanwhile."""
        error = WorkerLost("the dispatcher was stopped while it ran this request's batch")
        return cls(Outcome.FAILED, [error] * len(batch.jobs), interrupted=interrupted)


def _stops_us(error: BaseException) -> bool:
    """Whether the program wants this task to end, or only the handler said so."""
    return is_ctrl_c(error) or is_stopped(error)


def outcome_of(error: BaseException) -> Outcome:
    """How a batch ended that raised."""
    if ran_out_of_memory(error):
        return Outcome.OUT_OF_MEMORY
    return next((outcome for kind, outcome in _OUTCOMES if isinstance(error, kind)), Outcome.FAILED)


def _its_error(result: BaseException) -> BaseException:
    """What a member is told of the error in the place of its result."""
    if type(result) is not CallRaised:
        return honest(result)
    error = honest(result.error)
    begin_in_users_code(error)
    return _as_awaited(error)


def _as_awaited(error: BaseException) -> BaseException:
    """What awaiting the call raises: Python lets no StopIteration out of a coroutine."""
    if not issubclass(type(error), StopIteration):
        return error
    awaited = RuntimeError("coroutine raised StopIteration")  # in Python's own words
    awaited.__cause__ = error
    return awaited


def _together(errors: Iterable[BaseException]) -> Outcome:
    """How a batch ended of which some calls raised.

    Memory counts for all that follow. What one call alone says, such as that it did not begin, must
    not let the others run again.
    """
    outcomes = {*map(outcome_of, errors)}
    if Outcome.OUT_OF_MEMORY in outcomes:
        return Outcome.OUT_OF_MEMORY
    return outcomes.pop() if len(outcomes) == 1 else Outcome.FAILED


def may_run_again(error: BaseException) -> bool:
    """Whether another run might not raise it: it would if it is about time or the program."""
    return not isinstance(error, BatchingError) or isinstance(error, _CURABLE)


def told_now(
    calls: Sequence[T],
    results: Sequence[Any],
    verdicts: Mapping[Any, Verdict],
) -> tuple[list[T], list[Any]]:
    """The members of a failed batch that don't run again, and what each is told."""
    told = dict(zip(calls, results, strict=True))
    for call, verdict in verdicts.items():
        if verdict is Verdict.AGAIN:
            del told[call]
        elif verdict is Verdict.QUARANTINED:
            told[call] = _quarantined(told[call])
        elif verdict in _UNRESOLVED and isinstance(told[call], UpstreamRefusal):
            told[call] = _unresolved(told[call], verdict)
    return [*told], [*told.values()]


def _quarantined(lost: BaseException) -> Quarantined:
    """The error of a request over which workers die."""
    error = Quarantined(f"its worker died, and so did the next, which ran nothing else: {lost}")
    error.__cause__ = lost
    return error


def _unresolved(refusal: UpstreamRefusal, verdict: Verdict) -> BatchingError:
    """What a client is told where a server's words may be about another one's request."""
    error: BatchingError
    if verdict is Verdict.TOO_LATE:
        error = DeadlineExceeded(
            f"{refusal}; the deadline passed before the failing item was isolated"
        )
    else:
        message = f"{refusal}; too many batches fail to isolate the failing item"
        error = Overloaded(message, retry_after=_COME_AGAIN)
    error.__cause__ = refusal
    return error
