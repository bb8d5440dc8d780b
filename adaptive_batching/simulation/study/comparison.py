"""Is one policy worse than another? The same traffic and the same luck for both, several times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from adaptive_batching.simulation.study.replications import estimate
from adaptive_batching.simulation.study.report import Row

_LEAST = 1e-9  # of what is divided: a model that takes no time is a model, too

Pair = tuple[Row, Row]
"""What both policies came to under the same seed."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much worse the second policy may be.

    Attributes:
        goodput_loss: What it may lose, as a share of all requests.
        throughput_loss: What it may lose of the first's answers a second, relative; None for any.
        mean_increase: How much longer its mean latency may be, relative.
        p99_increase: How much longer its 99th percentile may be, relative.
    """

    goodput_loss: float
    throughput_loss: float | None
    mean_increase: float
    p99_increase: float


@dataclass(frozen=True, slots=True)
class Change:
    """By how much the second policy differs from the first, over paired runs.

    Attributes:
        mean: On average.
        low: The lower end of the interval that holds the true mean in 95 cases of 100.
        high: Its upper end; both are the mean if there was one run only.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second policy against the first. A change is None if a run had nothing to measure.

    Attributes:
        goodput_loss: Share of all requests that only the first answered in time (0.01 is a point).
        throughput_loss: Answers a second that only the first gave, relative to it.
        mean_increase: By how much the second's mean latency is longer, relative (0.1 is 10 %).
        p99_increase: Likewise its 99th percentile.
        faults: Why the second is not good enough, in words; none if it is.
    """

    goodput_loss: Change | None
    throughput_loss: Change | None
    mean_increase: Change | None
    p99_increase: Change | None
    faults: list[str]


def compared(pairs: Sequence[Pair], limits: Tolerance) -> Comparison:
    """Judge the means of paired runs."""
    goodput = _change(pairs, lambda old, new: _less(old.goodput, new.goodput))
    throughput = _change(pairs, lambda old, new: _less(1.0, _ratio(old.throughput, new.throughput)))
    mean = _change(pairs, lambda old, new: _less(_ratio(old.mean_latency, new.mean_latency), 1.0))
    p99 = _change(pairs, lambda old, new: _less(_ratio(old.p99_latency, new.p99_latency), 1.0))
    faults = _nothing_to_judge(pairs) or [
        *_passed("goodput fell by", goodput, limits.goodput_loss, ".2%", " of all requests"),
        *_passed("answers/s fell by", throughput, limits.throughput_loss, ".1%"),
        *_passed("mean latency rose by", mean, limits.mean_increase, ".1%"),
        *_passed("p99 rose by", p99, limits.p99_increase, ".1%"),
    ]
    return Comparison(goodput, throughput, mean, p99, faults)


def _nothing_to_judge(pairs: Sequence[Pair]) -> list[str]:
    rows = [row for pair in pairs for row in pair]
    if not all(row.requests for row in rows):
        return ["in one of the runs nothing came after the warm-up"]
    if not any(row.on_time for row in rows):
        return [
            "neither answered anything in time: expected a max_latency that one of them can keep"
        ]
    if any(row.mean_latency is None for row in rows):
        return ["in one of the runs no request was answered"]
    return []


def _passed(
    what: str, change: Change | None, limit: float | None, style: str, of: str = ""
) -> list[str]:
    """The fault, if there is one."""
    if limit is None or change is None or change.mean <= limit:
        return []
    return [f"{what} {change.mean:{style}}{of}, not {limit:{style}}"]


def _change(pairs: Sequence[Pair], difference: Callable[[Row, Row], float | None]) -> Change | None:
    known = [each for pair in pairs if (each := difference(*pair)) is not None]
    found = estimate(known)
    if found is None or len(known) < len(pairs):
        return None
    half = found.half_width or 0.0
    return Change(found.mean, found.mean - half, found.mean + half)


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _ratio(old: float | None, new: float | None) -> float | None:
    return None if old is None or new is None else max(new, _LEAST) / max(old, _LEAST)
