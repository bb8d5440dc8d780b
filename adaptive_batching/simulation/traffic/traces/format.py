"""What a format is, and what the readers of all formats have in common."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Literal, NamedTuple

from adaptive_batching.simulation.traffic.traces.lines import SHOWN, Lines, shown
from adaptive_batching.units import LARGEST_COST


class Request(NamedTuple):
    """One request as it was recorded."""

    time: float
    """When it came (seconds)."""
    size: int = 1
    """In the measure that was asked for; 1 if that was not recorded."""
    key: str | None = None
    """Requests of different keys share no batch; None if it has none."""
    max_latency: float | None = None
    """Seconds that it is ready to wait; None if it did not say."""
    cost: float | None = None
    """What its items cost; None if no costs were recorded, or not asked for. A format
    reads nan for one that is not known among others that are."""


Measure = Literal["items", "tokens", "cost"]
"""What a size counts: things to predict for, tokens of the prompt, or all the work it makes."""

_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")  # no nan, inf or 1_000
_COUNT = re.compile(r"[0-9]{1,18}")  # what fits 64 bits
_LATEST = 1e18  # seconds; nanoseconds taken for seconds pass, and differences stay finite
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,18})?"
    r"(Z|[-+][0-9]{2}:?[0-9]{2})?"
)


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write down requests.

    Attributes:
        name: As `--trace-format` has it.
        looks: Whether a file whose first line is this is one.
        read: The requests, checked by themselves; their order is checked by the caller.
        described: For the message when nothing fits.
        measures: What its sizes can count, the most natural first, and the name that `read` is
            given for it; empty if it has no sizes.
        own_zero: Whether its times count from a zero of their own, not from the first request.
        in_order: Whether it is written in the order of arrival; otherwise it is sorted.
        keyed: Whether it may tell the keys of its requests.
        costed: Whether it tells what each request cost, beside its size.
    """

    name: str
    looks: Callable[[str], bool]
    read: Callable[[Lines, str], Iterator[Request]]
    described: str
    measures: Mapping[Measure, str] = field(default_factory=dict)
    own_zero: bool = True
    in_order: bool = True
    keyed: bool = False
    costed: bool = False


def columns(lines: Lines, header: str) -> Iterator[list[str]]:
    """The cells of each row of a CSV file without quotes, after its header."""
    rows = iter(lines)
    first = next(rows, "")
    if first != header:
        raise lines.fault(f"the header {header!r}", shown(first))
    width = header.count(",") + 1
    for line in rows:
        cells = line.split(",")
        if len(cells) != width:
            raise lines.fault(f"{width} columns", f"{len(cells)} in {line[:SHOWN]!r}")
        yield cells


def number(text: str, lines: Lines) -> float:
    """Finite seconds."""
    seconds = float(text) if _NUMBER.fullmatch(text) else None
    if seconds is None or not isfinite(seconds):
        raise lines.fault("a finite number of seconds", repr(text[:SHOWN]))
    if abs(seconds) > _LATEST:
        raise lines.fault(f"a time within {_LATEST:g} seconds", repr(text[:SHOWN]))
    return seconds


def amount(text: str, lines: Lines) -> float:
    """A cost from 0 to `LARGEST_COST`, in any unit."""
    cost = float(text) if _NUMBER.fullmatch(text) else None
    if cost is None or not 0 <= cost <= LARGEST_COST:
        raise lines.fault(f"a cost of 0 to {LARGEST_COST:g}", repr(text[:SHOWN]))
    return cost


def count(text: str, lines: Lines, least: int = 0) -> int:
    """An integer, not below `least`."""
    if not _COUNT.fullmatch(text) or int(text) < least:
        raise lines.fault(f"an integer from {least}", repr(text[:SHOWN]))
    return int(text)


class WallClock:
    """ISO 8601 instants as seconds from the first one's; without a zone they are UTC.

    Fractions are kept apart, because seconds since 1970 leave a float no room for them.
    """

    def __init__(self) -> None:
        self._zero: datetime | None = None

    def seconds(self, text: str, lines: Lines) -> float:
        """Seconds of an instant.

        Raises:
            TraceError: It is none.
        """
        match = _ISO.fullmatch(text)
        try:
            if match is None:
                raise ValueError  # noqa: TRY301  a date can be wrong in two ways
            zone = (match[4] or "Z").replace("Z", "+00:00")
            instant = datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}")
        except ValueError:
            raise lines.fault("a time as 2023-11-16 18:15:46.68", repr(text[:SHOWN])) from None
        return self.since_first(instant) + float(match[3] or 0)

    def since_first(self, instant: datetime) -> float:
        """Seconds of an instant that has a zone."""
        self._zero = self._zero or instant
        return (instant - self._zero).total_seconds()


def is_time(text: str) -> bool:
    """Whether a text could be a time: a number or an instant."""
    return bool(_NUMBER.fullmatch(text) or _ISO.fullmatch(text))
