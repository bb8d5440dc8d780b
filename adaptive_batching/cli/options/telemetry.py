"""Options of the logs and traces of a service or a sidecar."""

import logging
from contextlib import AbstractContextManager
from typing import Annotated

import click
import msgspec

from adaptive_batching.cli.options.declared import Command, gather_options
from adaptive_batching.instrumentation.logs import Format, Logs
from adaptive_batching.marshal.config.quantities import Share, means
from adaptive_batching.marshal.http.tracing import Tracer

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class TelemetryOptions(msgspec.Struct, frozen=True):
    """Logs and traces of a program."""

    log_format: Annotated[
        Format,
        means("Format of log lines: text, or JSON objects with request_id, endpoint and code."),
    ] = "text"
    log_level: Annotated[
        str,
        means(
            "Lowest level that is logged; debug includes mistakes of clients.",
            choices=[*_LEVELS],
        ),
    ] = "info"
    trace: Annotated[
        Share | None,
        means(
            "Share of requests with OpenTelemetry spans, such as 100%, for them and their "
            "batches. Start the program with opentelemetry-instrument, whose variables say where "
            "spans go."
        ),
    ] = None

    def logs(self) -> AbstractContextManager[Logs]:
        """Return a context in which lines of the log are written."""
        return Logs(self.log_format).collected(_LEVELS[self.log_level])

    def tracer(self) -> Tracer | None:
        """Return the tracer that makes spans; None if `--trace` is missing.

        Raises:
            UsageError: OpenTelemetry is not installed.
        """
        if self.trace is None:
            return None
        try:
            from adaptive_batching.instrumentation.tracing import Tracing  # noqa: PLC0415  an extra
        except ModuleNotFoundError:
            hint = "OpenTelemetry is not installed: pip install opentelemetry-api"
            raise click.UsageError(hint) from None
        return Tracing(share=self.trace)


def telemetry_options(command: Command) -> Command:
    """Add the options of logs and traces to a command, as the argument `telemetry`."""
    return gather_options(command, "telemetry", TelemetryOptions, "Operators")
