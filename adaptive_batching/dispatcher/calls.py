"""One caller's wait for its answer, and the ways in which it ends."""

import asyncio
from collections.abc import Hashable, Sequence
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from adaptive_batching.core import Job, Priority
from adaptive_batching.errors import (
    BatchFunctionError,
    InvalidItem,
    MalformedBody,
    UpstreamAnswered,
    UpstreamBusy,
)

T = TypeVar("T")
R = TypeVar("R")

request_name: ContextVar[str] = ContextVar("request_name", default="")
"""What the request is called that calls are made for; whoever takes requests says so."""

_TOLD = (InvalidItem, MalformedBody)


class Call(Job, Generic[T, R]):
    """A job with the item it brings and the future that its caller awaits.

    Attributes:
        item: What the handler gets in its list.
        future: Of its result.
        name: What its request is called; empty if nobody said.
        attachment: What an observer that goes along with it keeps there; None until one does.
    """

    __slots__ = ("attachment", "future", "item", "name")
    attachment: object

    def __init__(
        self,
        item: T,
        future: asyncio.Future[R],
        arrived: float,
        size: int,
        deadline: float,
        key: Hashable,
    ) -> None:
        # Not super().__init__: this runs for every request, and the call would cost a tenth of it.
        self.arrived = arrived
        self.size = size
        self.deadline = deadline
        self.key = key
        self.queue = None
        self.item = item
        self.future = future
        self.name = request_name.get()
        self.attachment = None

    def fail(self, error: BaseException) -> None:
        """End with an error, unless the caller has gone."""
        if not self.future.done():
            self.future.set_exception(_awaitable(error))


class TenantCall(Call[T, R]):
    """A call of somebody; see `core.TenantJob`."""

    __slots__ = ("priority", "tenant")

    def __init__(
        self,
        item: T,
        future: asyncio.Future[R],
        arrived: float,
        size: int,
        deadline: float,
        key: Hashable,
        tenant: Hashable,
        priority: Priority,
    ) -> None:
        super().__init__(item, future, arrived, size, deadline, key)
        self.tenant = tenant
        self.priority = priority


def share_out(calls: Sequence[Call[Any, Any]], results: Sequence[Any]) -> tuple[int, int, int]:
    """Give each call its own result, or the error that stands in its place.

    Returns:
        How many were answered, how many failed, and how many callers had gone.
    """
    done = failed = cancelled = 0
    for call, result in zip(calls, results, strict=True):
        future = call.future
        if future.done():  # its caller left while the batch ran, or its deadline came
            cancelled += future.cancelled()
        elif isinstance(result, BaseException):
            answered = is_answer(result)
            done += answered
            failed += not answered
            future.set_exception(_awaitable(result))
        else:
            done += 1
            future.set_result(result)
    return done, failed, cancelled


def is_answer(result: Any) -> bool:
    """Whether nothing failed: who sent what is no item, and is told so, has his answer.

    A model server tells him by a status below 500; but that it is busy is no answer.
    """
    if isinstance(result, UpstreamAnswered):
        return result.reply.status < 500 and not isinstance(result, UpstreamBusy)
    return not isinstance(result, BaseException) or isinstance(result, _TOLD)


def _awaitable(error: BaseException) -> BaseException:
    """An exception that a future may carry: some would be taken for a message to the loop."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    named = BatchFunctionError(f"the handler raised {type(error).__name__}: {error}")
    named.__cause__ = error
    return named
