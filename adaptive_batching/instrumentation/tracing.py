"""Requests and batches as OpenTelemetry spans (extra `otel`); where they go, the SDK is told.

A batch has many parents, which a span can't have. So each batch begins a trace of its own, and is
linked with the requests in it, both ways: a slow request leads to its batch, and a batch to its
members.
"""

import os
from collections.abc import Mapping, Sequence
from contextvars import Token
from importlib.metadata import version
from itertools import islice
from random import random
from typing import Final, NamedTuple

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from adaptive_batching.core import Batch, BatchRecord, Job, JobOutcome, Outcome
from adaptive_batching.dispatcher.calls import Call
from adaptive_batching.exception_text import qualname_of

_NAME: Final = "adaptive_batching"
_METHODS = frozenset(
    {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}
)
_NO_PARENT = context.Context()
_DEFAULT_LINKS = 128  # that the SDK keeps of one span; what is more it drops without a word
_LINKS = "OTEL_SPAN_LINK_COUNT_LIMIT"


class Tracing:
    """Makes the spans of one program.

    Args:
        provider: Where spans go; the program's own (`trace.set_tracer_provider`) if not given.
        share: Of the requests that bring no trace along, those that get a span. The SDK can choose
            as well, but to ask it for each request costs more than to answer one.

    Raises:
        ValueError: The share is not between 0 and 1.
    """

    def __init__(self, provider: TracerProvider | None = None, share: float = 1.0) -> None:
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share: expected 0 to 1, got {share}")
        self._share = share
        self._tracer = trace.get_tracer(_NAME, version("adaptive-batching"), provider)
        self._propagated = tuple(propagate.get_global_textmap().fields)

    def observer(self, label: str) -> "BatchTracing":
        """Traces the batches of a dispatcher; `label` is what it is called."""
        return BatchTracing(self._tracer, label)

    def keeps(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers gets a span; drawn by lot if it brings no trace."""
        return self._brings_trace(headers) or random() < self._share  # noqa: S311  not a secret

    def begin(
        self, headers: Mapping[str, str], method: str, path: str, route: str | None
    ) -> "RequestSpan":
        """Begin a span around an answer, below that of the client if it has one.

        Args:
            headers: Of the request; `traceparent` among them says which trace it belongs to.
            method: Of HTTP.
            path: As the client wrote it.
            route: What answers it; None if nothing does. A client can't make up a span's name.
        """
        brought = self._brings_trace(headers)
        parent = propagate.extract(headers, _NO_PARENT) if brought else _NO_PARENT
        known = method if method in _METHODS else "_OTHER"
        name, attributes = known, {"http.request.method": known, "url.path": path}
        if route is not None:
            name, attributes["http.route"] = f"{known} {route}", route
        span = self._tracer.start_span(name, parent, SpanKind.SERVER, attributes)
        return RequestSpan(span, parent)

    def _brings_trace(self, headers: Mapping[str, str]) -> bool:
        for field in self._propagated:  # noqa: SIM110  for every request: any() takes twice as long
            if field in headers:
                return True
        return False

    @staticmethod
    def headers() -> dict[str, str]:
        """What a server is told of the span that is current here."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return carrier


class RequestSpan:
    """A span that is current until it ends, or is set aside."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span, parent: context.Context) -> None:
        self._span = span
        attached = context.attach(trace.set_span_in_context(span, parent))
        self._token: Token[context.Context] | None = attached

    def set_aside(self) -> None:
        """The span is not the current one any more; it ends elsewhere."""
        if self._token is not None:
            context.detach(self._token)
            self._token = None

    def end(self, status: int) -> None:
        """End with the status of an answer; only faults of ours make it a failed span."""
        if self._span.is_recording():
            self._span.set_attribute("http.response.status_code", status)
            if status >= 500:
                self._span.set_status(Status(StatusCode.ERROR))
        self._leave()

    def broken_off(self, error: BaseException) -> None:
        """End without an answer."""
        self._span.set_attribute("error.type", qualname_of(type(error)))
        self._leave()

    def _leave(self) -> None:
        self.set_aside()
        self._span.end()


class BatchTracing:
    """Observes one dispatcher from the beginning of its calls and batches.

    A call belongs to the span that is current where it is made.
    """

    def __init__(self, tracer: trace.Tracer, label: str) -> None:
        self._tracer = tracer
        self._label = label
        self._most_links = int(os.environ.get(_LINKS) or _DEFAULT_LINKS)
        self._running: dict[Batch, Span] = {}

    def call_made(self, call: Call[object, object]) -> None:
        """Remember whose it is."""
        present = context.get_current()
        if present:
            call.attachment = _Caller(present, trace.get_current_span(present))

    def batch_left(self, batch: Batch) -> None:
        """Begin its span, link it with its members, and make it the current one of its run.

        A batch of one runs in its only member's context: the trace goes on behind us. One none of
        whose members is kept has no span.
        """
        kept = _kept(batch.jobs)
        if kept:
            self._begin(batch, kept)
        if len(batch.jobs) == 1:
            caller = getattr(batch.jobs[0], "attachment", None)
            if isinstance(caller, _Caller):
                context.attach(caller.context)

    def _begin(self, batch: Batch, kept: Mapping[Span, Job]) -> None:
        links = [Link(each.get_span_context()) for each in islice(kept, self._most_links)]
        span = self._tracer.start_span(
            f"batch {self._label}",
            _NO_PARENT,
            SpanKind.INTERNAL,
            {
                "adaptive_batching.endpoint": self._label,
                "adaptive_batching.batch.size": batch.size,
                "adaptive_batching.batch.requests": len(batch.jobs),
                "adaptive_batching.batch.reason": batch.reason.value,
                "adaptive_batching.batch.predicted_seconds": batch.predicted,
                "adaptive_batching.batch.links_left_out": len(kept) - len(links),
                "adaptive_batching.batch.worker": batch.worker,
            },
            links,
        )
        own = span.get_span_context()
        about = {
            "adaptive_batching.batch.size": batch.size,
            "adaptive_batching.batch.reason": batch.reason.value,
        }
        for each, job in kept.items():
            each.add_link(own, about)
            each.set_attribute("adaptive_batching.queue_seconds", batch.released - job.arrived)
        self._running[batch] = span
        context.attach(trace.set_span_in_context(span, _NO_PARENT))

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """End its span."""
        span = self._running.pop(batch, None)
        if span is None:
            return
        span.set_attribute("adaptive_batching.batch.outcome", record.outcome.value)
        if record.outcome is not Outcome.DONE:
            span.set_status(Status(StatusCode.ERROR, record.outcome.value))
        span.end()

    def jobs_ended(
        self, jobs: Sequence[Job], outcome: JobOutcome, now: float, batch: BatchRecord | None
    ) -> None:
        """Say to each of the requests how its call ended."""
        for span in _kept(jobs):
            span.set_attribute("adaptive_batching.outcome", outcome.value)


class _Caller(NamedTuple):
    """The span in which a call was made."""

    context: context.Context
    span: Span


def _kept(jobs: Sequence[Job]) -> dict[Span, Job]:
    """The spans of some calls that are kept and not over, each once.

    Pieces of one request share its span; that of a client that has left is over.
    """
    kept: dict[Span, Job] = {}
    for job in jobs:
        caller = getattr(job, "attachment", None)
        if caller is not None and isinstance(caller, _Caller) and caller.span.is_recording():
            kept.setdefault(caller.span, job)
    return kept
