"""Nothing but times, one a line: seconds, or ISO 8601 instants."""

from collections.abc import Iterator

from adaptive_batching.simulation.traffic.traces.format import (
    Format,
    Request,
    WallClock,
    is_time,
    number,
)
from adaptive_batching.simulation.traffic.traces.lines import Lines


def _read(lines: Lines, _: str) -> Iterator[Request]:
    clock = WallClock()
    instants: bool | None = None
    for line in lines:
        if instants is None:
            instants = ":" in line
        yield Request(clock.seconds(line, lines) if instants else number(line, lines))


PLAIN = Format(
    name="times",
    looks=is_time,
    read=_read,
    described="a time",
    own_zero=False,
)
