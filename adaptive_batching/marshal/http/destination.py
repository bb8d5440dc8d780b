"""What a router needs of others: destinations of requests, their calls, and tenants."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from adaptive_batching.marshal.http.handler import Keep
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response


class PendingCall(Protocol):
    """What a request waits for.

    Attributes:
        outcome: Once it has ended: its result, or an exception.
    """

    outcome: Any


OnCallEnd = Callable[[PendingCall], None]
"""Called once with a call, when it has its outcome."""


class Destination(Protocol):
    """An endpoint or a route at work, as its requests see it.

    Attributes:
        responses: Answers by status.
    """

    responses: Counter[int]

    @property
    def label(self) -> str:
        """Its name in metrics and in the log."""
        ...

    @property
    def max_latency(self) -> float:
        """Seconds from a request's arrival to its answer; infinite for no limit."""
        ...

    @property
    def concluded(self) -> float:
        """When the last batch ended (monotonic seconds)."""
        ...

    def takes(self, request: Request) -> bool:
        """Whether it answers a request of this head from its whole body."""
        ...

    def check(self, request: Request) -> None:
        """Refuse a request before its body is read.

        Raises:
            Exception: Why.
        """
        ...

    def keep(self, request: Request) -> Keep:
        """How much of a body that is arriving is kept."""
        ...

    def submit(self, request: Request, within: float, on_end: OnCallEnd) -> PendingCall | None:
        """Let a request that is whole join a batch.

        Args:
            request: For which `takes` says yes.
            within: Seconds until its result.
            on_end: Told of the end, in a later turn of the loop.

        Returns:
            The call, for which either `withdraw` or `response` is called, once; None to pass the
            request on, now that its body is known.

        Raises:
            Exception: It is refused.
        """
        ...

    def withdraw(self, call: Any) -> None:
        """No answer to a call is wanted any more."""
        ...

    def response(self, request: Request, outcome: Any, now: float) -> Response | Exception | None:
        """The answer to a request whose call has ended.

        Args:
            request: The request.
            outcome: What its call ended with.
            now: The present (monotonic seconds).

        Returns:
            The answer; or the outcome, if that is an exception and no answer; or None to pass the
            request on after all.
        """
        ...

    def refuse_unseen(self, within: float) -> float | None:
        """Refuse a request if that is certain, whatever it brings.

        Args:
            within: Seconds that are left to it.

        Returns:
            Seconds after which it would be let in; None if it has to be submitted to know.
        """
        ...


class TenantCounter(Protocol):
    """Counts the requests of each tenant."""

    def enter(self, headers: Mapping[str, str], /) -> str:
        """Count a request; returns what `leave` has to be told.

        Raises:
            Rejected: The tenant has too many under way.
        """
        ...

    def leave(self, tenant: str, /) -> None:
        """Count it no longer."""
        ...
