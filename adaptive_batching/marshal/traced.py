"""A span around each answer, where somebody wants to see them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from aiohttp import web

from adaptive_batching.dispatcher import Observer
from adaptive_batching.marshal.listener import Answering


class RequestSpan(Protocol):
    """A span that is current until it ends."""

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

    def begin(
        self, headers: Mapping[str, str], method: str, path: str, route: str | None, /
    ) -> RequestSpan | None:
        """Begin a span around the answer to a request; None if it gets none."""
        ...

    def headers(self) -> Mapping[str, str]:
        """What a server is told of the span that is current."""
        ...


class Traced:
    """Answers as another does, within a span.

    Args:
        answering: Who answers.
        tracer: Makes the spans.
        route: What a request is for; None if for nothing that there is.
    """

    def __init__(
        self,
        answering: Answering,
        tracer: Tracer,
        route: Callable[[web.BaseRequest], str | None],
    ) -> None:
        self._answering = answering
        self._tracer = tracer
        self._route = route

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        route = self._route(request)
        span = self._tracer.begin(request.headers, request.method, request.path, route)
        if span is None:
            return await self._answering(request)
        try:
            response = await self._answering(request)
        except BaseException as error:
            span.broken_off(error)
            raise
        span.end(response.status)
        return response

    async def emptied(self) -> None:
        """Wait until no request is being answered."""
        await self._answering.emptied()


def traced(
    answering: Answering, tracer: Tracer | None, route: Callable[[web.BaseRequest], str | None]
) -> Answering:
    """The same as it is, if nobody wants spans."""
    return answering if tracer is None else Traced(answering, tracer, route)


def with_tracer(
    labels: Iterable[str], observers: Mapping[str, Sequence[Observer]], tracer: Tracer | None
) -> Mapping[str, Sequence[Observer]]:
    """Observers by label, with one that makes spans of batches if anybody wants them."""
    if tracer is None:
        return observers
    return {each: [*observers.get(each, ()), tracer.observer(each)] for each in labels}
