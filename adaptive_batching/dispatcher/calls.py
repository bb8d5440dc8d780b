"""One caller's wait for its answer, and the ways in which it ends."""

import asyncio
import enum
import logging
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from adaptive_batching.core import Job, JobOutcome, Priority
from adaptive_batching.errors import (
    DeadlineExceeded,
    Draining,
    InvalidItem,
    MalformedBody,
    QueueFull,
    Refused,
    UpstreamAnswered,
    UpstreamBusy,
)
from adaptive_batching.exception_text import exc_info
from adaptive_batching.workers.handler.results import exit_as_error

T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger("adaptive_batching")

request_name: ContextVar[str] = ContextVar("request_name", default="")
"""What the request is called that calls are made for; set by what takes requests."""

_TOLD = (InvalidItem, MalformedBody)


class NoOutcome(enum.Enum):
    """What a call has instead of an outcome."""

    PENDING = "pending"
    """The call has not ended."""
    LEFT = "left"
    """The caller has gone."""


PENDING, LEFT = NoOutcome.PENDING, NoOutcome.LEFT


class Call(Job, Generic[T, R]):
    """A job with the item it brings and the outcome that its caller waits for.

    Attributes:
        item: What the handler gets in its list.
        outcome: The result or the exception; `PENDING` until then, `LEFT` if the caller left first.
        name: What its request is called; empty if it has no name.
        attachment: What an observer that goes along with it keeps there; None until one does.
        future: What `settle` gives the outcome to; the function that makes the call sets it.
    """

    __slots__ = ("_on_end", "attachment", "future", "item", "name", "outcome")
    attachment: object
    future: "asyncio.Future[R]"
    outcome: R | Exception | NoOutcome

    def __init__(
        self,
        item: T,
        on_end: "OnEnd",
        arrived: float,
        size: int,
        deadline: float,
        key: Hashable,
        cost: float = 0.0,
    ) -> None:
        # Not super().__init__: this runs for every request, and the call would cost a tenth of it.
        self.arrived = arrived
        self.size = size
        self.deadline = deadline
        self.key = key
        self.cost = cost
        self.queue = None
        self.item = item
        self.outcome = PENDING
        self._on_end = on_end
        self.name = request_name.get()
        self.attachment = None

    def end(self, outcome: R | Exception) -> None:
        """End, and tell the caller; a caller that fails harms no other."""
        self.outcome = outcome
        try:
            self._on_end(self)
        except Exception as error:  # noqa: BLE001  the other members of the batch are still told
            message = "a caller failed as it was told the outcome of its call"
            _log.error(message, exc_info=exc_info(error))

    def fail(self, error: BaseException) -> None:
        """End with an error, unless it has ended or the caller has gone."""
        if self.outcome is PENDING:
            self.end(_tellable(error))


class TenantCall(Call[T, R]):
    """A call that carries its tenant and its priority; see `core.TenantJob`."""

    __slots__ = ("priority", "tenant")

    def __init__(
        self,
        item: T,
        on_end: "OnEnd",
        arrived: float,
        size: int,
        deadline: float,
        key: Hashable,
        tenant: Hashable,
        priority: Priority,
        cost: float = 0.0,
    ) -> None:
        super().__init__(item, on_end, arrived, size, deadline, key, cost)
        self.tenant = tenant
        self.priority = priority


class CallInSteps(Generic[R]):
    """A request that takes several calls, run as one task.

    Args:
        steps: The coroutine that returns the result.
        on_end: Called once with this object when it has an outcome; not called after `leave`.

    Attributes:
        outcome: The result or the exception; `PENDING` until then, `LEFT` if the caller left first.
        future: As a `Call`'s.
    """

    future: "asyncio.Future[R]"

    def __init__(self, steps: Coroutine[Any, Any, R], on_end: "OnEnd") -> None:
        self.outcome: R | Exception | NoOutcome = PENDING
        self._on_end = on_end
        self._task = asyncio.ensure_future(steps)
        self._task.add_done_callback(self._ended)

    def leave(self) -> None:
        """Cancel the task, unless it has ended; `on_end` is not called any more."""
        if self.outcome is PENDING:
            self.outcome = LEFT
            self._task.cancel()

    def _ended(self, task: asyncio.Task[R]) -> None:
        error = _cancelled() if task.cancelled() else task.exception()
        if self.outcome is PENDING:
            self.outcome = task.result() if error is None else _tellable(error)
            self._on_end(self)


OnEnd = Callable[[Call[Any, Any] | CallInSteps[Any]], None]
"""Called once with a call that has its outcome, never by the function that made the call."""


def settle(call: Call[Any, Any] | CallInSteps[Any]) -> None:
    """Give the future of a call its outcome, unless it has been cancelled."""
    future = call.future
    outcome: Any = call.outcome
    if future.done():
        return
    if issubclass(type(outcome), Exception):  # a result may say what it likes of its class
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def share_out(
    calls: Sequence[Call[Any, Any]], results: Sequence[Any], now: float
) -> tuple[int, int, int, int]:
    """Give each call its own result, or the error that stands in its place.

    A result that comes after the deadline, because the loop was late, is given as well.

    Args:
        calls: The members of a batch.
        results: Theirs, in the same order.
        now: When the batch ended (seconds).

    Returns:
        The numbers of calls that were answered in time, that were answered late, that failed, and
        whose caller had left.
    """
    done = late = failed = left = 0
    for call, result in zip(calls, results, strict=True):
        if call.outcome is not PENDING:  # its caller left meanwhile, or its deadline came
            left += call.outcome is LEFT
            continue
        answered, outcome = True, result
        if issubclass(type(result), BaseException):  # a result may say what it likes of its class
            answered, outcome = is_answer(result), _tellable(result)
        if not answered:
            failed += 1
        elif now <= call.deadline:
            done += 1
        else:
            late += 1
        call.end(outcome)
    return done, late, failed, left


def is_answer(result: Any) -> bool:
    """Whether a result counts as an answer.

    That an item is none does, and so does a server's status below 500, but not that it is busy.
    """
    if issubclass(type(result), UpstreamAnswered):
        return result.reply.status < 500 and not isinstance(result, UpstreamBusy)
    return not issubclass(type(result), BaseException) or isinstance(result, _TOLD)


def weigh(cost_of: Callable[[Any], float], item: Any) -> float | Exception:
    """What an item costs, or the error that its call ends with: it has come, and is counted."""
    try:
        return cost_of(item)
    except Exception as error:  # noqa: BLE001  the dispatcher raises it
        return error


def job_outcome(error: BaseException) -> JobOutcome:
    """How a request that is answered with an error has ended."""
    match error:
        case asyncio.CancelledError():
            return JobOutcome.CANCELLED
        case _ if is_answer(error):
            return JobOutcome.DONE
        case DeadlineExceeded():
            return JobOutcome.EXPIRED
        case QueueFull():
            return JobOutcome.QUEUE_FULL
        case Refused():
            return JobOutcome.SHED
        case _:
            return JobOutcome.FAILED


def _cancelled() -> Exception:
    return Draining("the request was cancelled before it was answered")


def _tellable(error: BaseException) -> Exception:
    """The error as a caller may get it: some would act on the event loop, and are wrapped."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return exit_as_error(error)
