"""Requests and batches as OpenTelemetry spans (extra `otel`); where they go, the SDK is told.

A batch has many parents, which a span can't have. So each batch begins a trace of its own, and is
linked with the requests in it, both ways: whoever looks at a slow request finds its batch, and
whoever looks at a batch finds its members.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import islice
from typing import Final

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from adaptive_batching.core import Batch, BatchRecord, Job, JobOutcome, Outcome
from adaptive_batching.dispatcher.calls import Call

_NAME: Final = "adaptive_batching"
_METHODS = frozenset(
    {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}
)
_DEFAULT_LINKS = 128  # that the SDK keeps of one span; what is more it drops without a word
_LINKS = "OTEL_SPAN_LINK_COUNT_LIMIT"


class Tracing:
    """Makes the spans of one program.

    Args:
        provider: Where spans go; the program's own (`trace.set_tracer_provider`) if not given.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(_NAME, version("adaptive-batching"), provider)

    def observer(self, label: str) -> "BatchTracing":
        """Traces the batches of a dispatcher; `label` is what it is called."""
        return BatchTracing(self._tracer, label)

    @contextmanager
    def request(
        self, headers: Mapping[str, str], method: str, path: str, route: str | None
    ) -> Iterator[Span]:
        """A span around the answer to an HTTP request, below that of its client if it has one.

        Args:
            headers: Of the request; `traceparent` among them says which trace it belongs to.
            method: Of HTTP.
            path: As the client wrote it.
            route: What answers it; None if nothing does. A client can't make up a span's name.
        """
        known = method if method in _METHODS else "_OTHER"
        attributes = {"http.request.method": known, "url.path": path}
        if route is not None:
            attributes["http.route"] = route
        with self._tracer.start_as_current_span(
            f"{known} {route}" if route is not None else known,
            propagate.extract(headers),
            SpanKind.SERVER,
            attributes,
        ) as span:
            yield span

    @staticmethod
    def answered(span: Span, status: int) -> None:
        """Enter the status of an answer; only faults of ours make its span a failed one."""
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_status(Status(StatusCode.ERROR))

    @staticmethod
    def headers() -> dict[str, str]:
        """What a server is told of the span that is current here."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return carrier


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
        span = trace.get_current_span()
        if span.get_span_context().is_valid:
            call.attachment = span

    def batch_left(self, batch: Batch) -> None:
        """Begin its span, link it with its members, and make it the current one of its run.

        A batch of one runs in its only member's span: the trace goes on behind us.
        """
        members = _members(batch.jobs)
        links = [Link(each.get_span_context()) for each in islice(members, self._most_links)]
        span = self._tracer.start_span(
            f"batch {self._label}",
            context.Context(),
            SpanKind.INTERNAL,
            {
                "adaptive_batching.endpoint": self._label,
                "adaptive_batching.batch.size": batch.size,
                "adaptive_batching.batch.requests": len(batch.jobs),
                "adaptive_batching.batch.reason": batch.reason.value,
                "adaptive_batching.batch.predicted_seconds": batch.predicted,
                "adaptive_batching.batch.links_left_out": len(members) - len(links),
                "adaptive_batching.batch.worker": batch.worker,
            },
            links,
        )
        own = span.get_span_context()
        about = {
            "adaptive_batching.batch.size": batch.size,
            "adaptive_batching.batch.reason": batch.reason.value,
        }
        for each, job in members.items():
            each.add_link(own, about)
            each.set_attribute("adaptive_batching.queue_seconds", batch.released - job.arrived)
        self._running[batch] = span
        alone = len(batch.jobs) == 1 and members
        context.attach(trace.set_span_in_context(next(iter(members)) if alone else span))

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """End its span."""
        span = self._running.pop(batch)
        span.set_attribute("adaptive_batching.batch.outcome", record.outcome.value)
        if record.outcome is not Outcome.DONE:
            span.set_status(Status(StatusCode.ERROR, record.outcome.value))
        span.end()

    def jobs_ended(
        self, jobs: Sequence[Job], outcome: JobOutcome, now: float, batch: BatchRecord | None
    ) -> None:
        """Say to each of the requests how its call ended."""
        for span in _members(jobs):
            span.set_attribute("adaptive_batching.outcome", outcome.value)


def _members(jobs: Sequence[Job]) -> dict[Span, Job]:
    """The spans of some calls, each once: pieces of one request share its span."""
    members: dict[Span, Job] = {}
    for job in jobs:
        span = getattr(job, "attachment", None)
        if isinstance(span, Span):
            members.setdefault(span, job)
    return members
