"""Our own form: CSV with the header `t_seconds,size`."""

from collections.abc import Iterator

from adaptive_batching.simulation.traces.format import Format, Request, columns, count, number
from adaptive_batching.simulation.traces.lines import Lines

_HEADER = "t_seconds,size"


def _read(lines: Lines, _: str) -> Iterator[Request]:
    for time, size in columns(lines, _HEADER):
        yield number(time, lines), count(size, lines, 1) if size else 1


OWN = Format(
    name="csv",
    looks=_HEADER.__eq__,
    read=_read,
    described=f"the header {_HEADER!r}",
    measures={"items": "size", "tokens": "size", "cost": "size"},  # whatever it was recorded in
)
