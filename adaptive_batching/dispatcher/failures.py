"""What the members of a failed batch are told, and whether another run could help them."""

from collections.abc import Sequence
from typing import Any

from adaptive_batching.core import Outcome
from adaptive_batching.errors import (
    BatchingError,
    HandlerError,
    Quarantined,
    UpstreamBroken,
    UpstreamBusy,
    WorkerLost,
    WorkerTimeout,
)

_ITEMS_FAULTS = (HandlerError, WorkerLost, UpstreamBroken)  # of ours, those that may be an item's


def outcome_of(error: BaseException) -> Outcome:
    """How a batch ended that raised."""
    if isinstance(error, WorkerTimeout | UpstreamBusy):
        return Outcome.OVERLOADED
    return Outcome.LOST if isinstance(error, WorkerLost) else Outcome.FAILED


def all_failed(results: Sequence[Any]) -> bool:
    """Whether a batch had an error for each: as a rule because none of its items was run."""
    return isinstance(results[0], BaseException) and all(
        isinstance(result, BaseException) for result in results
    )


def may_be_an_items_fault(error: BaseException) -> bool:
    """Whether some other batch might not raise it: not if it is about load, time or the program."""
    return not isinstance(error, BatchingError) or isinstance(error, _ITEMS_FAULTS)


def quarantined(lost: BaseException) -> Quarantined:
    """What the one is told over whom workers die."""
    error = Quarantined(f"its worker died, and so did the next, which ran nothing else: {lost}")
    error.__cause__ = lost
    return error
