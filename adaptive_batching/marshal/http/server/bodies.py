"""What becomes of a body that is still arriving, if it is not passed on: it is kept, or dropped."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.handler import Handler, Keep
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.server.framing import Framing


class Turn(Protocol):
    """What a body asks of the connection when its request has its turn."""

    def pass_on(self, request: Request) -> None:
        """Let aiohttp have a request."""
        ...

    def refuse(self, request: Request, error: Exception) -> None:
        """Answer a request whose body need not arrive any more."""
        ...


class KeptBody:
    """Collects a body, within limits, so that its request can be answered from it.

    Args:
        request: The request, which counts as in flight already.
        keep: How much may be collected, and in which time.
        handler: Counts what has been collected.
        framing: Where the body arrives, and where the request waits for its turn once it is whole.
        turn: Refuses the request, or passes it on.
    """

    def __init__(
        self, request: Request, keep: Keep, handler: Handler, framing: Framing, turn: Turn
    ) -> None:
        self._request = request
        self._keep = keep
        self._handler = handler
        self._framing = framing
        self._turn = turn
        self._timer = asyncio.get_running_loop().call_later(keep.seconds, self._be_late)
        framing.body = self

    def feed(self, piece: bytes) -> None:
        """Collect a piece."""
        self._request.take(piece)

    def feed_end(self) -> None:
        """The request is whole."""
        self._timer.cancel()
        self._framing.waiting.append(self._request)

    def count(self) -> None:
        """Count what has arrived; if that is too much, refuse the request or pass it on."""
        request, keep = self._request, self._keep
        if request.size <= keep.limit:
            try:
                self._handler.hold(request, request.size)
            except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
                self._turn.refuse(request, error)
        elif keep.passes_on:
            self.drop()
            self._turn.pass_on(request)
        else:
            self._turn.refuse(request, Rejected(413, "body_too_large", closes=True))

    def drop(self) -> None:
        """Collect no more, and count the request no longer."""
        self._timer.cancel()
        self._framing.body = None
        self._handler.drop(self._request)

    def _be_late(self) -> None:
        self._turn.refuse(self._request, Rejected(408, "body_timeout", closes=True))


class DroppedBody:
    """Reads the rest of a body whose request has been answered.

    Args:
        on_end: Called when the body has ended.
    """

    def __init__(self, on_end: Callable[[], None]) -> None:
        self.feed_end = on_end

    def feed(self, piece: bytes) -> None:
        """Drop a piece."""
