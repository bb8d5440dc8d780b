"""What a service or a sidecar tells of itself while it runs."""

from dataclasses import dataclass

import click

from adaptive_batching.cli.option_groups import Command, gather_options
from adaptive_batching.marshal.traced import Tracer

_OPTIONS = (
    click.option(
        "--trace",
        is_flag=True,
        help="Make OpenTelemetry spans of requests and batches; the environment says where they go,"
        " as of opentelemetry-instrument.",
    ),
)


@dataclass(frozen=True, slots=True)
class TelemetryOptions:
    """What was said of it.

    Attributes:
        trace: Whether spans are made.
    """

    trace: bool

    def tracer(self) -> Tracer | None:
        """What makes spans, if they are wanted.

        Raises:
            UsageError: OpenTelemetry is not installed.
        """
        if not self.trace:
            return None
        try:
            from adaptive_batching.instrumentation.tracing import Tracing  # noqa: PLC0415  an extra
        except ModuleNotFoundError:
            hint = "OpenTelemetry is not installed: pip install adaptive-batching[otel]"
            raise click.UsageError(hint) from None
        return Tracing()


def telemetry_options(command: Command) -> Command:
    """Add the options to a command, which gets them as `telemetry`."""
    return gather_options(command, _OPTIONS, "telemetry", TelemetryOptions)
