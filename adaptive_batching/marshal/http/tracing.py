"""A span around each answer."""

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from aiohttp import web

from adaptive_batching.dispatcher import Observer
from adaptive_batching.marshal.http.handler import Handler, InFlight, Keep, Respond
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response


class RequestSpan(Protocol):
    """A span that is current until it ends, or is set aside."""

    def set_aside(self) -> None:
        """Be the current span no longer; it ends elsewhere."""
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
    """Answers as another handler does, within a span.

    Args:
        handler: Answers.
        tracer: Makes the spans.
        route: What a path and query are for; None if for nothing that there is.
    """

    def __init__(
        self, handler: Handler, tracer: Tracer, route: Callable[[str], str | None]
    ) -> None:
        self._handler = handler
        self._tracer = tracer
        self._route = route

    @property
    def draining(self) -> bool:
        """Whether each connection ends with its next answer."""
        return self._handler.draining

    @property
    def tunnels(self) -> bool:
        """Whether `pass_on` may answer by switching to WebSocket."""
        return self._handler.tunnels

    def keep(self, request: Request) -> Keep | None:
        """How much of a body to keep."""
        return self._handler.keep(request)

    def hold(self, request: Request, size: int) -> None:
        """Count the bytes of a body as held."""
        self._handler.hold(request, size)

    def drop(self, request: Request) -> None:
        """Count a request no longer."""
        self._handler.drop(request)

    def begin(self, request: Request, respond: Respond) -> InFlight | Response | None:
        """Begin to answer a request, within a span; one that is passed on draws lots again."""
        if not self._tracer.keeps(request.headers):
            return self._handler.begin(request, respond)
        span = self._span(request.headers, request.method, request.target)
        traced = _TracedRequest(span, respond)
        try:
            begun = self._handler.begin(request, traced.respond)
        finally:
            span.set_aside()
        if isinstance(begun, Response):
            span.end(begun.status)
            return begun
        traced.in_flight = begun
        return None if begun is None else traced

    def refusal(self, request: Request | None, error: Exception) -> Response:
        """The answer to a request that failed before it began; it gets no span."""
        return self._handler.refusal(request, error)

    async def pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request as aiohttp sees it, within a span."""
        if not self._tracer.keeps(request.headers):
            return await self._handler.pass_on(request)
        span = self._span(request.headers, request.method, request.raw_path)
        try:
            response = await self._handler.pass_on(request)
        except BaseException as error:
            span.broken_off(error)
            raise
        span.end(response.status)
        return response

    async def emptied(self) -> None:
        """Wait until no request is being answered."""
        await self._handler.emptied()

    def _span(self, headers: Mapping[str, str], method: str, target: str) -> RequestSpan:
        path = target.partition("?")[0]
        return self._tracer.begin(headers, method, path, self._route(target))


class _TracedRequest:
    """A request that waits for its answer, within its span."""

    def __init__(self, span: RequestSpan, respond: Respond) -> None:
        self._span = span
        self._respond = respond
        self.in_flight: InFlight | None = None

    def respond(self, response: Response | None) -> None:
        """Send the answer; a request that is passed on after all draws lots again."""
        self._respond(response)
        if response is not None:
            self._span.end(response.status)

    def leave(self) -> None:
        """Give up: the client has gone."""
        if self.in_flight is not None:
            self.in_flight.leave()
        self._span.broken_off(CancelledError())


def traced(handler: Handler, tracer: Tracer | None, route: Callable[[str], str | None]) -> Handler:
    """A handler within spans; as it is without a tracer."""
    return handler if tracer is None else Traced(handler, tracer, route)


def with_tracer(
    labels: Iterable[str], observers: Mapping[str, Sequence[Observer]], tracer: Tracer | None
) -> Mapping[str, Sequence[Observer]]:
    """Observers by label, with one that makes spans of batches if there is a tracer."""
    if tracer is None:
        return observers
    return {each: [*observers.get(each, ()), tracer.observer(each)] for each in labels}
