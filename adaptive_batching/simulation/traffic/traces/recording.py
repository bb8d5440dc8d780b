"""What `--record` wrote: every request with its end, and the batch that it was in."""

from collections.abc import Iterator
from itertools import groupby
from math import nan
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from adaptive_batching.core import RECORDING, JobOutcome
from adaptive_batching.simulation.traffic.traces.format import (
    Format,
    Request,
    amount,
    columns,
    count,
    number,
)
from adaptive_batching.simulation.traffic.traces.lines import SHOWN, Lines

_OUTCOMES = [outcome.value for outcome in JobOutcome]
_ANSWERED = {JobOutcome.DONE.value, JobOutcome.EXPIRED.value}  # late: expired, and has a batch
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
    cost: float = 0.0
    """What its items cost together, if the others cost as much as those that were answered."""
    largest: float = 0.0
    """The largest cost of a request that was answered."""


def recorded_batches(path: str | Path) -> Iterator[RecordedBatch]:
    """The batches of a recording that gave at least one answer, in the order of their end.

    A batch that failed as a whole says nothing about how long a batch takes.

    Raises:
        TraceError: It is no recording, or damaged.
    """
    for _, members in groupby(_answered(Lines(path)), attrgetter("batch")):
        first, *others = members
        together = (first, *others)
        answered = sum(member.size for member in together)
        cost = sum(member.cost for member in together)
        yield RecordedBatch(
            first.batch_size,
            first.took,
            first.arrived + first.latency - first.took,
            max(member.arrived for member in together),
            first.reason,
            cost * first.batch_size / answered,
            max(member.cost for member in together),
        )


class _Answered(NamedTuple):
    """A row of a request that was answered."""

    arrived: float
    size: int
    cost: float
    latency: float
    batch: str
    batch_size: int
    took: float
    reason: str


def _answered(lines: Lines) -> Iterator[_Answered]:
    for row in columns(lines, RECORDING):
        time, size, cost, latency, _, outcome, batch, batch_size, took, reason = row
        if outcome not in _OUTCOMES:
            raise lines.fault(f"one of {', '.join(_OUTCOMES)}", repr(outcome[:SHOWN]))
        if outcome in _ANSWERED and batch:  # without one it never ran
            yield _Answered(
                number(time, lines),
                count(size, lines, 1),
                amount(cost, lines),
                _duration(latency, lines),
                batch,
                count(batch_size, lines, 1),
                _duration(took, lines),
                reason,
            )


def _duration(text: str, lines: Lines) -> float:
    seconds = number(text, lines)
    if not 0 <= seconds <= _LONGEST:
        raise lines.fault(f"0 to {_LONGEST:g} seconds", text)
    return seconds


def _read(lines: Lines, _: str) -> Iterator[Request]:
    for time, size, cost, _latency, key, *_rest in columns(lines, RECORDING):
        arrived, items = number(time, lines), count(size, lines, 1)
        yield Request(arrived, items, key or None, cost=amount(cost, lines) if cost else nan)


RECORDED = Format(
    name="recording",
    looks=RECORDING.__eq__,
    read=_read,
    described="the header of a recording",
    measures={"items": "size"},
    own_zero=False,
    keyed=True,
    costed=True,
    in_order=False,  # a row is written when its request ends
)
