"""The service of `bench http` in a program that keeps spans and sends them nowhere."""

from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from adaptive_batching.bench.programs.apps import throughput

__all__ = ["throughput"]


class _Nowhere(SpanExporter):
    """What a collector costs is its own affair."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Forget them."""
        return SpanExportResult.SUCCESS


_provider = TracerProvider()
_provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
trace.set_tracer_provider(_provider)
