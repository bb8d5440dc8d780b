"""What a service or a sidecar tells of itself while it runs."""

import logging
from contextlib import AbstractContextManager
from dataclasses import dataclass

import click

from adaptive_batching.cli.options.groups import Command, gather_options
from adaptive_batching.cli.options.parameters import PART
from adaptive_batching.instrumentation.logs import Format, Logs
from adaptive_batching.marshal.http.tracing import Tracer

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_OPTIONS = (
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Lines for people, or a JSON object in each, with request_id, endpoint and code.",
    ),
    click.option(
        "--log-level",
        type=click.Choice(list(_LEVELS)),
        default="info",
        show_default=True,
        help="From which level on; debug tells of clients' own mistakes as well.",
    ),
    click.option(
        "--trace",
        type=PART,
        help="Make OpenTelemetry spans of so many requests (100%), and of their batches; where they"
        " go, the environment says: start it with opentelemetry-instrument.",
    ),
)


@dataclass(frozen=True, slots=True)
class TelemetryOptions:
    """What was said of it.

    Attributes:
        log_format: What lines of the log look like.
        log_level: From which level on there are any.
        trace: Share of the requests that get spans; None for nothing at all.
    """

    log_format: Format
    log_level: str
    trace: float | None

    def logs(self) -> AbstractContextManager[Logs]:
        """What takes the lines of the log while it is entered."""
        return Logs(self.log_format).collected(_LEVELS[self.log_level])

    def tracer(self) -> Tracer | None:
        """What makes spans, if they are wanted.

        Raises:
            UsageError: OpenTelemetry is not installed.
        """
        if self.trace is None:
            return None
        try:
            from adaptive_batching.instrumentation.tracing import Tracing  # noqa: PLC0415  an extra
        except ModuleNotFoundError:
            hint = "OpenTelemetry is not installed: pip install adaptive-batching[otel]"
            raise click.UsageError(hint) from None
        return Tracing(share=self.trace)


def telemetry_options(command: Command) -> Command:
    """Add the options to a command, which gets them as `telemetry`."""
    return gather_options(command, _OPTIONS, "telemetry", TelemetryOptions)
