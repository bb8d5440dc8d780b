"""Is one policy worse than another? The same traffic and the same luck for both, several times."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from adaptive_batching.simulation.report import Row


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
    """The second policy against the first.

    Attributes:
        goodput_loss: Share of all requests that only the first answered in time (0.01 is a point).
        p99_increase: By how much the second's p99 is longer, relative (0.1 is 10 %); None if one of
            them answered nobody.
        faults: The limits that were passed, in words; none if the second is good enough.
    """

    goodput_loss: Change
    p99_increase: Change | None
    faults: list[str]


def compared(
    pairs: Sequence[tuple[Row, Row]], *, max_goodput_loss: float, max_p99_increase: float
) -> Comparison:
    """Judge the means of paired runs.

    Args:
        pairs: What both policies came to under the same seed.
        max_goodput_loss: What the second may lose, as a share of all requests.
        max_p99_increase: How much longer its p99 may be, relative.
    """
    loss = _change([(old.goodput or 0.0) - (new.goodput or 0.0) for old, new in pairs])
    increase = _p99_increase(pairs)
    faults = []
    if loss.mean > max_goodput_loss:
        faults.append(
            f"goodput fell by {loss.mean:.2%} of all requests, not {max_goodput_loss:.2%}"
        )
    if increase is None:
        faults.append("in one of the runs nobody was answered")
    elif increase.mean > max_p99_increase:
        faults.append(f"p99 rose by {increase.mean:.1%}, not {max_p99_increase:.1%}")
    return Comparison(loss, increase, faults)


def _p99_increase(pairs: Sequence[tuple[Row, Row]]) -> Change | None:
    increases = [
        new.p99_latency / old.p99_latency - 1.0
        for old, new in pairs
        if old.p99_latency and new.p99_latency is not None
    ]
    return _change(increases) if len(increases) == len(pairs) else None


def _change(differences: Sequence[float]) -> Change:
    mean = float(np.mean(differences))
    if len(differences) < 2:
        return Change(mean, mean, mean)
    error = float(np.std(differences, ddof=1)) / len(differences) ** 0.5
    half = float(student.ppf(0.975, len(differences) - 1)) * error
    return Change(mean, mean - half, mean + half)
