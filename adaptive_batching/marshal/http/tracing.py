"""A span around each answer, where somebody wants to see them."""

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from aiohttp import web
from aiohttp.http import RawRequestMessage

from adaptive_batching.dispatcher import Observer
from adaptive_batching.marshal.http.answer import status_of
from adaptive_batching.marshal.http.answering import Answering
from adaptive_batching.marshal.http.fast_path import FastPath, Respond, Waiting


class Served(Answering, FastPath, Protocol):
    """What answers requests on both paths."""


class RequestSpan(Protocol):
    """A span that is current until it ends, or is set aside."""

    def set_aside(self) -> None:
        """It is not the current one any more; it ends elsewhere."""
        ...

    def end(self, status: int, /) -> None:
        """End with the status of an answer."""
        ...

    def broken_off(self, error: BaseException, /) -> None:
        """End without an answer."""
        ...


class Tracer(Protocol):
    """Makes spans; `instrumentation.tracing.Tracing` does it, of the extra `otel`."""

    def observer(self, label: str, /) -> Observer:
        """Traces the batches of a dispatcher."""
        ...

    def keeps(self, headers: Mapping[str, str], /) -> bool:
        """Whether a request gets a span; to be asked once for each."""
        ...

    def begin(
        self, headers: Mapping[str, str], method: str, path: str, route: str | None, /
    ) -> RequestSpan:
        """Begin a span around the answer to a request."""
        ...

    def headers(self) -> Mapping[str, str]:
        """What a server is told of the span that is current."""
        ...


class Traced:
    """Answers as another does, within a span.

    Args:
        answering: Who answers.
        tracer: Makes the spans.
        route: What a path and query are for; None if for nothing that there is.
    """

    def __init__(
        self,
        answering: Served,
        tracer: Tracer,
        route: Callable[[str], str | None],
    ) -> None:
        self._answering = answering
        self._tracer = tracer
        self._route = route

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if not self._tracer.keeps(request.headers):
            return await self._answering(request)
        span = self._span(request.headers, request.method, request.raw_path)
        try:
            response = await self._answering(request)
        except BaseException as error:
            span.broken_off(error)
            raise
        span.end(response.status)
        return response

    @property
    def pressed(self) -> bool:
        """Whether the last request was refused."""
        return self._answering.pressed

    def turn_away(self, message: RawRequestMessage, unread: float, now: float) -> bytes | None:
        """Refuse a request that was read too late; it gets no span."""
        return self._answering.turn_away(message, unread, now)

    def begin(
        self, message: RawRequestMessage, body: bytes, came: float, respond: Respond
    ) -> Waiting | bytes | None:
        """Let a request wait for its answer; see `FastPath`.

        If it needs more than that, its span is dropped: the usual path draws lots again.
        """
        if not self._tracer.keeps(message.headers):
            return self._answering.begin(message, body, came, respond)
        span = self._span(message.headers, message.method, message.path)
        visit = _TracedVisit(span, respond)
        try:
            begun = self._answering.begin(message, body, came, visit.respond)
        finally:
            span.set_aside()
        if begun is None:
            return None
        if isinstance(begun, bytes):
            span.end(status_of(begun))
            return begun
        visit.waiting = begun
        return visit

    async def emptied(self) -> None:
        """Wait until no request is being answered."""
        await self._answering.emptied()

    def _span(self, headers: Mapping[str, str], method: str, target: str) -> RequestSpan:
        path = target.partition("?")[0]
        return self._tracer.begin(headers, method, path, self._route(target))


class _TracedVisit:
    """A request on the fast path, within its span."""

    def __init__(self, span: RequestSpan, respond: Respond) -> None:
        self._span = span
        self._respond = respond
        self.waiting: Waiting | None = None

    def respond(self, answer: bytes, closes: bool) -> None:  # noqa: FBT001  a callback
        """Send the answer."""
        self._respond(answer, closes)
        self._span.end(status_of(answer))

    def leave(self) -> None:
        """Its client has gone."""
        if self.waiting is not None:
            self.waiting.leave()
        self._span.broken_off(CancelledError())


def traced(answering: Served, tracer: Tracer | None, route: Callable[[str], str | None]) -> Served:
    """The same as it is, if nobody wants spans."""
    return answering if tracer is None else Traced(answering, tracer, route)


def with_tracer(
    labels: Iterable[str], observers: Mapping[str, Sequence[Observer]], tracer: Tracer | None
) -> Mapping[str, Sequence[Observer]]:
    """Observers by label, with one that makes spans of batches if anybody wants them."""
    if tracer is None:
        return observers
    return {each: [*observers.get(each, ()), tracer.observer(each)] for each in labels}
