"""What answers the requests of connections: a service, a sidecar, or the pages of operators."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from aiohttp import web

from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response

Respond = Callable[[Response | None], None]
"""Sends the answer to a request; None passes it on after all."""


class InFlight(Protocol):
    """A request that waits for its answer."""

    def leave(self) -> None:
        """Give up: the client has gone, and no answer is wanted."""
        ...


class Keep(NamedTuple):
    """How much of a body that is still arriving is kept, to answer the request from it.

    Attributes:
        limit: Bytes; a longer body is refused, or passed on.
        seconds: In which all of it has to arrive.
        passes_on: Whether a request with a longer body is passed on.
    """

    limit: int
    seconds: float
    passes_on: bool


class Handler(Protocol):
    """Answers requests from their whole bodies, and passes all others on to `pass_on`."""

    @property
    def draining(self) -> bool:
        """Whether each connection ends with its next answer."""
        ...

    @property
    def tunnels(self) -> bool:
        """Whether `pass_on` may answer by switching to WebSocket."""
        ...

    def keep(self, request: Request) -> Keep | None:
        """Say how much of a body to keep that has only begun to arrive.

        From now on the request counts as in flight; `begin` or `drop` ends that.

        Returns:
            None if the request is to be passed on as it arrives.

        Raises:
            Exception: It is refused; see `refusal`.
        """
        ...

    def hold(self, request: Request, size: int) -> None:
        """Count more bytes of a body in chunks as held.

        Raises:
            QueueFull: They would be too many.
        """
        ...

    def drop(self, request: Request) -> None:
        """Count a request that is arriving no longer as in flight."""
        ...

    def begin(self, request: Request, respond: Respond) -> InFlight | Response | None:
        """Begin to answer a request that is whole.

        Args:
            request: All of it.
            respond: Called once by the loop, unless that is left before.

        Returns:
            What waits for the answer; or the answer; or None if the request is to be passed on.
        """
        ...

    def refusal(self, request: Request | None, error: Exception) -> Response:
        """The answer to a request that failed before it began; None for one that is no HTTP."""
        ...

    def pass_on(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        """Answer a request as aiohttp sees it, whatever happens.

        Raises:
            ConnectionError: The answer has begun, and broke off.
        """
        ...

    async def emptied(self) -> None:
        """Wait until no request is being answered."""
        ...
