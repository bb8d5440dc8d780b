"""What `--record` wrote: every request with its end, and the batch that it was in."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from adaptive_batching.core import RECORDING, JobOutcome
from adaptive_batching.simulation.traffic.traces.format import (
    Format,
    Request,
    columns,
    count,
    number,
)
from adaptive_batching.simulation.traffic.traces.lines import SHOWN, Lines

_OUTCOMES = [outcome.value for outcome in JobOutcome]
_LONGEST = 1e9  # seconds, thirty years: squares of it are still numbers


class RecordedBatch(NamedTuple):
    """A batch that ran to its end."""

    size: int
    """Items."""
    duration: float
    """Seconds that its worker held it."""
    released: float
    """When it left (seconds)."""
    joined: float
    """When the last of its requests that were answered arrived (seconds)."""
    reason: str
    """Why it left when it did."""


def recorded_batches(path: str | Path) -> Iterator[RecordedBatch]:
    """The batches of a recording that gave at least one answer, in the order of their end.

    A batch that failed as a whole says nothing about how long a batch takes.

    Raises:
        TraceError: It is no recording, or damaged.
    """
    lines = Lines(path)
    newest, known = "", None
    for row in columns(lines, RECORDING):
        time, _, latency, _, outcome, batch, size, duration, reason = row
        if outcome not in _OUTCOMES:
            raise lines.fault(f"one of {', '.join(_OUTCOMES)}", repr(outcome[:SHOWN]))
        if outcome != JobOutcome.DONE.value:
            continue
        arrived = number(time, lines)
        if known is not None and batch == newest:
            known = known._replace(joined=max(known.joined, arrived))
            continue
        if known is not None:
            yield known
        took = _duration(duration, lines)
        released = arrived + _duration(latency, lines) - took
        newest = batch
        known = RecordedBatch(count(size, lines, 1), took, released, arrived, reason)
    if known is not None:
        yield known


def _duration(text: str, lines: Lines) -> float:
    seconds = number(text, lines)
    if not 0 <= seconds <= _LONGEST:
        raise lines.fault(f"0 to {_LONGEST:g} seconds", text)
    return seconds


def _read(lines: Lines, _: str) -> Iterator[Request]:
    for time, size, _latency, key, *_rest in columns(lines, RECORDING):
        yield Request(number(time, lines), count(size, lines, 1), key or None)


RECORDED = Format(
    name="recording",
    looks=RECORDING.__eq__,
    read=_read,
    described="the header of a recording",
    measures={"items": "size"},
    own_zero=False,
    keyed=True,
    in_order=False,  # a row is written when its request ends
)
