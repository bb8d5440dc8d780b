"""The way of requests that are whole when they are read, and that only their batch keeps waiting.

aiohttp makes a request object, a task, two futures and a response for each, which is half of what
such a request costs. Whoever knows what to do with it may answer it without them.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from aiohttp.http import RawRequestMessage

from adaptive_batching.core import QueueingDelay
from adaptive_batching.dispatcher.calls import Call, request_name
from adaptive_batching.marshal.http.request_ids import acceptable_id

Respond = Callable[[bytes, bool], None]
"""Sends all of an answer, and says whether the connection ends with it."""


class Waiting(Protocol):
    """A request that waits for its answer."""

    def leave(self) -> None:
        """Its client has gone."""
        ...


class FastPath(Protocol):
    """Who may answer requests without what aiohttp makes for each."""

    @property
    def pressed(self) -> bool:
        """Whether the last one was refused, so that others may have to be turned away."""
        ...

    def turn_away(self, message: RawRequestMessage, unread: float, now: float) -> bytes | None:
        """All of the answer to a request that lay unread for some seconds; None to look at it."""
        ...

    def begin(
        self, message: RawRequestMessage, body: bytes, came: float, respond: Respond
    ) -> Waiting | bytes | None:
        """Let a request wait for its answer.

        Args:
            message: Its line and headers.
            body: All of it.
            came: When its bytes came (monotonic seconds).
            respond: Called once by the loop, unless that is left before.

        Returns:
            What waits; or all of an answer already; or None for who needs more than that.
        """
        ...


def received(message: RawRequestMessage, came: float, passage: QueueingDelay) -> str:
    """The turn of a request has come as it was read: learn from that, and return its name.

    Args:
        message: Its line and headers.
        came: When its bytes came (monotonic seconds).
        passage: Learns.
    """
    name = acceptable_id(message.headers.get("X-Request-Id"))
    request_name.set(name)
    now = monotonic()
    passage.noticed(now - came, 0.0, now)
    return name


A = TypeVar("A")
R = TypeVar("R")


class Visit(Generic[A, R]):
    """A request on the fast path, until its answer is there or its client has gone.

    Args:
        over: Told of that, by the loop.
        withdraw: Told that nobody waits for its call any more.
        call: Its place in a batch.
        about: What else has to be known to answer it.
        name: What it is called.
        came: When its bytes came (monotonic seconds).
        held: How many of them are its body.
        respond: Sends its answer.
    """

    __slots__ = ("_call", "_over", "_withdraw", "about", "came", "held", "name", "respond")

    def __init__(
        self,
        over: "Callable[[Visit[A, R], asyncio.Future[R]], None]",
        withdraw: Callable[[Call[Any, R]], None],
        call: Call[Any, R],
        about: A,
        name: str,
        came: float,
        held: int,
        respond: Respond,
    ) -> None:
        self._over = over
        self._withdraw = withdraw
        self._call = call
        self.about = about
        self.name = name
        self.came = came
        self.held = held
        self.respond = respond
        call.future.add_done_callback(self._ended)

    def leave(self) -> None:
        """Its client has gone."""
        self.respond = _to_nobody  # its answer may be on its way already
        self._call.future.cancel()
        self._withdraw(self._call)

    def _ended(self, future: "asyncio.Future[R]") -> None:
        self._over(self, future)


def _to_nobody(_answer: bytes, _closes: bool) -> None:  # noqa: FBT001  as `Respond` is called
    """Its client has gone."""
