"""Observers hear of what a dispatcher does, and can do no harm to it."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from adaptive_batching.core import Batch, BatchRecord, Job, JobOutcome
from adaptive_batching.dispatcher.calls import LEFT, PENDING, Call, is_answer
from adaptive_batching.exception_text import exc_info

_log = logging.getLogger("adaptive_batching")


class Observer(Protocol):
    """Hears of each batch that has ended: metrics, traces, tests."""

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """A batch has ended; called before its members are answered, so be quick."""


NO_OBSERVERS: Mapping[str, Sequence[Observer]] = MappingProxyType({})


@runtime_checkable
class JobObserver(Observer, Protocol):
    """Hears of each request as well, the refused ones too."""

    def jobs_ended(
        self, jobs: Sequence[Job], outcome: JobOutcome, now: float, batch: BatchRecord | None
    ) -> None:
        """Some jobs have ended, all in the same way: members of a batch, or never in one."""


@runtime_checkable
class Companion(Observer, Protocol):
    """Goes along with calls and batches from their beginning: a tracer."""

    def call_made(self, call: Call[Any, Any]) -> None:
        """A call comes in; told in the context of its caller, before it is let in."""

    def batch_left(self, batch: Batch) -> None:
        """A batch leaves; told in the context that it will run in."""


def checked(observers: Sequence[Observer]) -> Sequence[Observer]:
    """Return the observers as a tuple.

    Raises:
        TypeError: They are no list, or one of them is a class, or has no method `batch_ended`.
    """
    if not isinstance(observers, Iterable):
        raise TypeError(f"observers: expected a list of observers, got {observers!r}")
    told = tuple(observers)
    for each in told:
        if isinstance(each, type) or not callable(getattr(each, "batch_ended", None)):
            raise TypeError(f"observers: expected objects with batch_ended(), got {each!r}")
    return told


class Observers:
    """The observers of one driver; one that fails is logged, and the others are told.

    Attributes:
        of_jobs: Those that hear of each request; while there are none, it costs nothing.
        companions: Those that hear of beginnings; without any they cost nothing either.
    """

    __slots__ = ("_of_batches", "companions", "of_jobs")

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._of_batches = tuple(each.batch_ended for each in observers)
        self.of_jobs = tuple(each for each in observers if isinstance(each, JobObserver))
        self.companions = tuple(each for each in observers if isinstance(each, Companion))

    def call_made(self, call: Call[Any, Any]) -> None:
        """Tell of a call."""
        _tell((each.call_made for each in self.companions), call)

    def batch_left(self, batch: Batch) -> None:
        """Tell of a batch that leaves."""
        _tell((each.batch_left for each in self.companions), batch)

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """Tell of a batch."""
        _tell(self._of_batches, batch, record)

    def jobs_ended(
        self, jobs: Sequence[Job], outcome: JobOutcome, now: float, batch: BatchRecord | None = None
    ) -> None:
        """Tell of some jobs."""
        _tell((each.jobs_ended for each in self.of_jobs), jobs, outcome, now, batch)

    def members_ended(
        self,
        calls: Sequence[Call[Any, Any]],
        results: Sequence[Any],
        now: float,
        batch: BatchRecord | None,
    ) -> None:
        """Tell of a batch's members, which are about to get these results.

        As a rule all have theirs, in time, which is seen at a glance: every request pays for this.
        """
        if all(map(_has_result, calls, results, repeat(now))):
            self.jobs_ended(calls, JobOutcome.DONE, now, batch)
            return
        members: dict[JobOutcome, list[Job]] = {}
        for call, result in zip(calls, results, strict=True):
            ending = _ending(call, result, now)
            if ending is not None:
                members.setdefault(ending, []).append(call)
        for outcome, jobs in members.items():
            self.jobs_ended(jobs, outcome, now, batch)


def _has_result(call: Call[Any, Any], result: Any, now: float) -> bool:
    answered = call.outcome is PENDING and not issubclass(type(result), BaseException)
    return answered and now <= call.deadline


def _ending(call: Call[Any, Any], result: Any, now: float) -> JobOutcome | None:
    if call.outcome is not PENDING:  # its caller left meanwhile, or its deadline came
        return JobOutcome.CANCELLED if call.outcome is LEFT else None
    if not is_answer(result):
        return JobOutcome.FAILED
    return JobOutcome.DONE if now <= call.deadline else JobOutcome.EXPIRED


def _tell(all_who_hear: Iterable[Callable[..., None]], *what: object) -> None:
    for hear in all_who_hear:
        try:
            hear(*what)
        except Exception as error:  # noqa: BLE001  the batch is not to blame for it
            _log.error("an observer failed; batches go on", exc_info=exc_info(error))
