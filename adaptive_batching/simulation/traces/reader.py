"""Reads a trace of any format, whole or request by request."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
import numpy.typing as npt

from adaptive_batching.simulation.arrivals import Times
from adaptive_batching.simulation.traces.access_log import ACCESS_LOG
from adaptive_batching.simulation.traces.azure_functions import AZURE_FUNCTIONS
from adaptive_batching.simulation.traces.azure_llm import AZURE_LLM
from adaptive_batching.simulation.traces.disb import DISB
from adaptive_batching.simulation.traces.format import Format, Measure, Request
from adaptive_batching.simulation.traces.lines import Lines, shown
from adaptive_batching.simulation.traces.mooncake import MOONCAKE
from adaptive_batching.simulation.traces.own import OWN
from adaptive_batching.simulation.traces.plain import PLAIN
from adaptive_batching.simulation.traces.recording import RECORDED
from adaptive_batching.simulation.traces.sorting import in_order

Sizes = npt.NDArray[np.int64]

FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        OWN,
        RECORDED,
        AZURE_LLM,
        AZURE_FUNCTIONS,
        MOONCAKE,
        DISB,
        PLAIN,
        ACCESS_LOG,
    )
}


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests as they were recorded.

    Attributes:
        times: Seconds from the start of the recording, non-decreasing.
        sizes: What each request brought, in the measure asked for; 1 if that was not recorded.
    """

    times: Times
    sizes: Sizes


def read_trace(
    path: str | Path, *, form: str | None = None, measure: Measure | None = None
) -> Trace:
    """Read a whole trace; compression and format are told from the content, not from the name.

    Args:
        path: The file.
        form: A name in `FORMATS`, instead of what the content looks like.
        measure: What sizes count; the most natural of the format if None.

    Raises:
        TraceError: Names the file, the line, what was expected and what was there.
    """
    return Trace(*_columns(stream_trace(path, form=form, measure=measure)))


def stream_trace(
    path: str | Path, *, form: str | None = None, measure: Measure | None = None
) -> Iterator[Request]:
    """Like `read_trace`, request by request in bounded memory; long files are sorted on disk."""
    lines = Lines(path)
    known = _told(lines) if form is None else FORMATS[form]
    requests = known.read(lines, _column(known, measure, lines))
    zero = 0.0 if known.own_zero else None
    empty = True
    for time, size in _checked(requests, lines, zero) if known.in_order else in_order(requests):
        zero = time if zero is None else zero
        if time < zero:
            raise lines.fault_at("as a whole", "0 seconds or more", f"{time:g}")
        empty = False
        yield time - zero, size
    if empty:
        lines.number += 1
        raise lines.fault("at least one request", "the end of the file")


def _told(lines: Lines) -> Format:
    first = lines.first()
    for known in FORMATS.values():
        if known.looks(first):
            return known
    described = ", ".join(each.described for each in FORMATS.values())
    raise lines.fault(f"one of {described}", shown(first))


def _column(known: Format, measure: Measure | None, lines: Lines) -> str:
    if measure is None:
        return next(iter(known.measures.values()), "")
    if measure not in known.measures:
        counted = " or ".join(known.measures) or "nothing"
        raise lines.fault_at("its sizes", measure, f"{known.name}, which counts {counted}")
    return known.measures[measure]


def _checked(requests: Iterator[Request], lines: Lines, zero: float | None) -> Iterator[Request]:
    newest = -inf if zero is None else zero
    for request in requests:
        time = request[0]
        if time < newest:
            early = zero is not None and time < zero
            expected = "0 seconds or more" if early else f"times in order, {newest} or later"
            raise lines.fault(expected, f"{time}")
        newest = time
        yield request


def _columns(requests: Iterator[Request]) -> tuple[Times, Sizes]:
    times, sizes = array("d"), array("q")
    for time, size in requests:
        times.append(time)
        sizes.append(size)
    return np.array(times), np.array(sizes, np.int64)
