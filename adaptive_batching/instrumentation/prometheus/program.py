"""The process as a whole: what it keeps, whether its event loop keeps up, which version it is."""

from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

from prometheus_client.metrics_core import Metric

from adaptive_batching.instrumentation.loop_lag import LoopLag
from adaptive_batching.instrumentation.prometheus.definition import (
    counter,
    gauge,
    histogram,
    of_program,
)

BUILD = of_program(gauge("build_info", "1, with the version that runs"), "version")
HELD = of_program(gauge("held_bytes", "Bytes of requests that are kept"))
CONNECTIONS = of_program(counter("connections_dropped", "Connections that were one too many"))
LINES = of_program(counter("log_lines_dropped", "Lines of the log that were not written in time"))
LOOP_LAG = of_program(
    histogram("event_loop_lag_seconds", "How late timers are, looked at ten times a second")
)

DEFINITIONS = (BUILD, HELD, CONNECTIONS, LINES, LOOP_LAG)


def collect(
    held_bytes: Callable[[], int],
    connections_dropped: Callable[[], int],
    lines_dropped: Callable[[], int],
    loop_lag: LoopLag,
) -> Iterator[Metric]:
    """Of this process."""
    connections, lines = CONNECTIONS.family(), LINES.family()
    connections.add_metric([], connections_dropped())
    lines.add_metric([], lines_dropped())
    build, held, lag = BUILD.family(), HELD.family(), LOOP_LAG.family()
    build.add_metric([_version()], 1)
    held.add_metric([], held_bytes())
    lag.add_metric([], loop_lag.seconds.cumulative(), loop_lag.seconds.total)
    yield build
    yield held
    yield connections
    yield lines
    yield lag


def _version() -> str:
    try:
        return version("adaptive-batching")
    except PackageNotFoundError:  # run from its sources
        return "unknown"
