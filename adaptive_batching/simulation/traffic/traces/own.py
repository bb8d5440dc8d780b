"""Our own form: CSV with the columns `t_seconds`, `size`, and `key` and `max_latency` if known."""

from collections.abc import Iterator

from adaptive_batching.simulation.traffic.traces.format import (
    Format,
    Request,
    columns,
    count,
    number,
)
from adaptive_batching.simulation.traffic.traces.lines import Lines

_TIME, _SIZE, _KEY, _MAX_LATENCY = "t_seconds", "size", "key", "max_latency"
_HEADER = f"{_TIME},{_SIZE}"
_OPTIONAL = (_SIZE, _KEY, _MAX_LATENCY)


def _looks(first: str) -> bool:
    time, *more = first.split(",")
    return time == _TIME and len(set(more)) == len(more) > 0 and set(more) <= set(_OPTIONAL)


def _read(lines: Lines, _: str) -> Iterator[Request]:
    header = lines.first()
    names = header.split(",") if _looks(header) else []
    size, key, max_latency = (names.index(name) if name in names else None for name in _OPTIONAL)
    for cells in columns(lines, header if names else _HEADER):
        yield Request(
            number(cells[0], lines),
            count(cells[size], lines, 1) if size and cells[size] else 1,
            cells[key] or None if key else None,
            _patience(cells[max_latency], lines) if max_latency and cells[max_latency] else None,
        )


def _patience(text: str, lines: Lines) -> float:
    seconds = number(text, lines)
    if not seconds > 0:
        raise lines.fault("a max_latency of more than 0 seconds, or nothing", repr(text))
    return seconds


OWN = Format(
    name="csv",
    looks=_looks,
    read=_read,
    described=f"the header {_HEADER!r}, with ',{_KEY}' and ',{_MAX_LATENCY}' if known",
    measures={"items": "size", "tokens": "size", "cost": "size"},  # whatever it was recorded in
    keyed=True,
)
