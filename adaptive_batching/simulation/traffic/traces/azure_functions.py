"""Azure's functions of 2021: when each call ended and how long it took, in the order of neither."""

from collections.abc import Iterator
from math import ceil

from adaptive_batching.simulation.traffic.traces.format import Format, Request, columns, number
from adaptive_batching.simulation.traffic.traces.lines import Lines

_HEADER = "app,func,end_timestamp,duration"
_LONGEST = 1e9  # seconds, 30 years: its milliseconds must fit an integer


def _read(lines: Lines, _: str) -> Iterator[Request]:
    for app, func, end, duration in columns(lines, _HEADER):
        seconds = number(duration, lines)
        if not 0 <= seconds <= _LONGEST:
            raise lines.fault("a duration of 0 seconds or more", duration)
        came = number(end, lines) - seconds
        yield Request(came, max(1, ceil(seconds * 1e3)), f"{app}/{func}")


AZURE_FUNCTIONS = Format(
    name="azure-functions",
    looks=_HEADER.__eq__,
    read=_read,
    described=f"the header {_HEADER!r}",
    measures={"cost": "milliseconds"},
    own_zero=False,
    in_order=False,
    keyed=True,  # by function: its calls run the same code
)
