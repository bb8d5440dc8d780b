"""Our own form: CSV with `t_seconds`, and some of `size`, `key`, `max_latency` and `cost`."""

from collections.abc import Iterator

from adaptive_batching.simulation.traffic.traces.format import (
    Format,
    Request,
    amount,
    columns,
    count,
    number,
)
from adaptive_batching.simulation.traffic.traces.lines import Lines

_TIME, _SIZE, _KEY, _MAX_LATENCY, _COST = "t_seconds", "size", "key", "max_latency", "cost"
_HEADER = f"{_TIME},{_SIZE}"
_OPTIONAL = (_SIZE, _KEY, _MAX_LATENCY, _COST)


def _looks(first: str) -> bool:
    time, *more = first.split(",")
    return time == _TIME and len(set(more)) == len(more) > 0 and set(more) <= set(_OPTIONAL)


def _read(lines: Lines, _: str) -> Iterator[Request]:
    header = lines.first()
    names = header.split(",") if _looks(header) else []
    size, key, max_latency, cost = (
        names.index(name) if name in names else None for name in _OPTIONAL
    )
    for cells in columns(lines, header if names else _HEADER):
        yield Request(
            number(cells[0], lines),
            count(cells[size], lines, 1) if size and cells[size] else 1,
            cells[key] or None if key else None,
            _patience(cells[max_latency], lines) if max_latency and cells[max_latency] else None,
            amount(cells[cost], lines) if cost else None,
        )


def _patience(text: str, lines: Lines) -> float:
    seconds = number(text, lines)
    if not seconds > 0:
        raise lines.fault("a max_latency of more than 0 seconds, or nothing", repr(text))
    return seconds


_MORE = f"',{_KEY}', ',{_MAX_LATENCY}' and ',{_COST}'"

OWN = Format(
    name="csv",
    looks=_looks,
    read=_read,
    described=f"the header {_HEADER!r}, with {_MORE} if known",
    measures={"items": "size", "tokens": "size", "cost": "size"},  # whatever it was recorded in
    keyed=True,
)
