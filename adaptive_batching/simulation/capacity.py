"""How many workers some traffic needs, and how much more of it they would bear."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from adaptive_batching.core import PolicyLike
from adaptive_batching.simulation.arrivals import Times
from adaptive_batching.simulation.closed_loop import ClosedLoop
from adaptive_batching.simulation.experiment import Experiment, Stream
from adaptive_batching.simulation.report import Row
from adaptive_batching.simulation.servers import UnevenServers
from adaptive_batching.simulation.shaping import scale_rate

CURVE = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
"""Times the traffic's requests, on the same clock."""

_LUCK = 1.05  # by which noisy workers may be faster than their mean


@dataclass(frozen=True, slots=True)
class Target:
    """What has to hold: a share of all requests in time, and max_latency for 99 in 100 answers."""

    goodput: float
    max_latency: float

    def holds(self, row: Row) -> bool:
        """Whether a simulation came to it."""
        if row.goodput is None or row.p99_latency is None:
            return False
        return row.goodput >= self.goodput and row.p99_latency <= self.max_latency


@dataclass(frozen=True, slots=True)
class Trial:
    """One simulation of the search.

    Attributes:
        max_batch_size: Items.
        row: What it came to.
        holds: Whether the target was held.
    """

    max_batch_size: int
    row: Row
    holds: bool


@dataclass(frozen=True, slots=True)
class Point:
    """The chosen set-up under more or less of the traffic.

    Attributes:
        scale: Times the requests of the traffic.
        row: What it came to.
        holds: Whether the target was held.
    """

    scale: float
    row: Row
    holds: bool


def smallest(
    experiment: Experiment, policy: PolicyLike, workers: Sequence[int], target: Target
) -> tuple[Trial | None, list[Trial]]:
    """Find the fewest workers that hold the target, and the best batch limit for them.

    The limits tried are the experiment's own and the powers of two below it, but for those with
    which even workers that never rest are too slow. Of those that hold the target, the one with the
    most goodput is best, then the one with the least p99.

    Args:
        experiment: The traffic, the workers' durations and the largest batch limit.
        policy: Its name, class or factory.
        workers: Numbers to try, fewest first.
        target: What has to hold.

    Returns:
        The best, None if there is none, and all that were tried.

    Raises:
        ValueError: The arrivals are not known beforehand.
    """
    times = _known(experiment.arrivals)
    tried: list[Trial] = []
    for number in workers:
        trials = []
        for limit in _limits(experiment.limits.max_batch_size):
            limited = _with_limit(experiment, limit)
            if not _hopeless(limited, times, number, target):
                row = limited.run(policy, number)
                trials.append(Trial(limit, row, target.holds(row)))
        tried += trials
        if holding := [trial for trial in trials if trial.holds]:
            return min(holding, key=_rank), tried
    return None, tried


def curve(
    experiment: Experiment, policy: PolicyLike, best: Trial, target: Target
) -> Iterator[Point]:
    """Simulate the chosen set-up under less and more traffic.

    Raises:
        ValueError: The arrivals are not known beforehand.
    """
    limited = _with_limit(experiment, best.max_batch_size)
    for scale in CURVE:
        times, origins = scale_rate(_known(experiment.arrivals), scale, experiment.seed)
        scaled = replace(limited.only(origins), arrivals=times)
        row = best.row if scale == 1 else scaled.run(policy, best.row.workers)
        yield Point(scale, row, target.holds(row))


def _known(arrivals: Times | ClosedLoop | Stream) -> Times:
    if not isinstance(arrivals, np.ndarray):
        raise ValueError("capacity: expected arrivals that are known, got users or a stream")  # noqa: TRY004
    return arrivals


def _limits(largest: int) -> list[int]:
    return [*(2**power for power in range(largest.bit_length()) if 2**power < largest), largest]


def _hopeless(experiment: Experiment, times: Times, workers: int, target: Target) -> bool:
    """Whether full batches on end, from the first arrival to the last deadline, are too few."""
    server, limit = experiment.server, experiment.limits.max_batch_size
    if isinstance(server, UnevenServers):
        raise ValueError("capacity: expected workers that are alike, got some that differ")  # noqa: TRY004
    duration = server.mean(limit)
    if experiment.sizes is not None or not duration or not len(times):
        return False  # with sizes, a share of the requests may be any share of the items
    if server.curve is not None or server.conditions:
        return False  # full batches may not be the fastest, nor take that long
    span = float(times[-1] - times[0]) + target.max_latency
    most = workers * limit * (span / duration + 1) * _LUCK
    return most < target.goodput * len(times)


def _with_limit(experiment: Experiment, max_batch_size: int) -> Experiment:
    return replace(experiment, limits=replace(experiment.limits, max_batch_size=max_batch_size))


def _rank(trial: Trial) -> tuple[float, float, int]:
    """Best first; a tenth of a point of goodput is noise."""
    goodput, p99 = trial.row.goodput, trial.row.p99_latency
    assert goodput is not None
    assert p99 is not None
    return -round(goodput, 3), p99, trial.max_batch_size
