"""Reads a trace of any format, whole or request by request."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isnan, nan
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

from adaptive_batching.simulation.traffic.arrivals import Times
from adaptive_batching.simulation.traffic.traces.access_log import ACCESS_LOG
from adaptive_batching.simulation.traffic.traces.azure_functions import AZURE_FUNCTIONS
from adaptive_batching.simulation.traffic.traces.azure_llm import AZURE_LLM
from adaptive_batching.simulation.traffic.traces.disb import DISB
from adaptive_batching.simulation.traffic.traces.format import Format, Measure, Request
from adaptive_batching.simulation.traffic.traces.lines import Lines, shown
from adaptive_batching.simulation.traffic.traces.mooncake import MOONCAKE
from adaptive_batching.simulation.traffic.traces.own import OWN
from adaptive_batching.simulation.traffic.traces.plain import PLAIN
from adaptive_batching.simulation.traffic.traces.recording import RECORDED
from adaptive_batching.simulation.traffic.traces.sorting import in_order

Sizes = npt.NDArray[np.int64]
Keys = npt.NDArray[np.object_]
_DRAWN_FROM = 1_024  # costs, for those that are not known

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
        keys: Of each request; None where it has none.
        max_latencies: Seconds that each is ready to wait; NaN where it did not say.
        costs: What the items of each cost; 0 if that was neither recorded nor asked for.
    """

    times: Times
    sizes: Sizes
    keys: Keys
    max_latencies: Times
    costs: Times


def read_trace(
    path: str | Path,
    *,
    form: str | None = None,
    measure: Measure | None = None,
    with_keys: bool = False,
    cost: Measure | None = None,
) -> Trace:
    """Read a whole trace; compression and format are told from the content, not from the name.

    Args:
        path: The file.
        form: A name in `FORMATS`, instead of what the content looks like.
        measure: What sizes count; the most natural of the format if None.
        with_keys: Whether a format that has no keys is an error.
        cost: What costs count in a trace without a column of costs: its sizes in that measure;
            requests cost nothing there if None.

    Raises:
        TraceError: Names the file, the line, what was expected and what was there.
    """
    return _trace(stream_trace(path, form=form, measure=measure, with_keys=with_keys, cost=cost))


def stream_trace(
    path: str | Path,
    *,
    form: str | None = None,
    measure: Measure | None = None,
    with_keys: bool = False,
    cost: Measure | None = None,
) -> Iterator[Request]:
    """Like `read_trace`, request by request in bounded memory; long files are sorted on disk."""
    lines = Lines(path)
    known = _told(lines) if form is None else FORMATS[form]
    if with_keys and not known.keyed:
        keyed = " or ".join(name for name, each in FORMATS.items() if each.keyed)
        raise lines.fault_at("its keys", keyed, f"{known.name}, which has none")
    counted = measure if known.costed else measure or cost
    requests = _known(known.read(lines, _column(known, counted, lines)))
    if cost is not None:
        requests = _costed(requests, lines, sized=measure is not None)
    zero = 0.0 if known.own_zero else None
    empty = True
    for request in _checked(requests, lines, zero) if known.in_order else in_order(requests):
        time = request.time
        zero = time if zero is None else zero
        if time < zero:
            raise lines.fault_at("as a whole", "0 seconds or more", f"{time:g}")
        empty = False
        yield Request(time - zero, *request[1:]) if zero else request
    if empty:
        lines.number += 1
        raise lines.fault("at least one request", "the end of the file")


def is_recording(path: str | Path) -> bool:
    """Whether a file is what `--record` wrote, with the durations of its batches.

    Raises:
        TraceError: It can't be read, or is no trace.
    """
    return _told(Lines(path)) is RECORDED


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


def _costed(requests: Iterator[Request], lines: Lines, *, sized: bool) -> Iterator[Request]:
    """Take sizes for costs where there are no others."""
    for request in requests:
        if request.cost is not None:
            yield request
            continue
        if sized:
            expected = "a column of costs, or no sizes"
            raise lines.fault_at("its costs", expected, "one number for each request")
        yield request._replace(size=1, cost=float(request.size))


def _known(requests: Iterator[Request]) -> Iterator[Request]:
    """Draw each cost that is not known from those that are, the same each time.

    Requests before the first known cost get that one; nothing costs anything if there is none.
    """
    lots = Random(0)  # noqa: S311  not a secret
    seen, early = list[float](), list[Request]()
    for request in requests:
        cost = request.cost
        if cost is None:
            yield request
        elif not isnan(cost):
            if len(seen) == _DRAWN_FROM:
                del seen[lots.randrange(_DRAWN_FROM)]
            seen.append(cost)
            yield from (each._replace(cost=cost) for each in early)
            early.clear()
            yield request
        elif seen:
            yield request._replace(cost=lots.choice(seen))
        else:
            early.append(request)
    yield from (each._replace(cost=None) for each in early)


def _checked(requests: Iterator[Request], lines: Lines, zero: float | None) -> Iterator[Request]:
    newest = -inf if zero is None else zero
    for request in requests:
        time = request.time
        if time < newest:
            early = zero is not None and time < zero
            expected = "0 seconds or more" if early else f"times in order, {newest} or later"
            raise lines.fault(expected, f"{time}")
        newest = time
        yield request


def _trace(requests: Iterator[Request]) -> Trace:
    times, sizes, max_latencies, costs = array("d"), array("q"), array("d"), array("d")
    keys: list[str | None] = []
    known: dict[str | None, str | None] = {}  # so that each key is in the memory once
    for time, size, key, max_latency, cost in requests:
        times.append(time)
        sizes.append(size)
        keys.append(known.setdefault(key, key))
        max_latencies.append(nan if max_latency is None else max_latency)
        costs.append(cost or 0.0)
    return Trace(
        np.array(times),
        np.array(sizes, np.int64),
        np.array(keys, object),
        np.array(max_latencies),
        np.array(costs),
    )
