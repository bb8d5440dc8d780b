"""How good any policy could have been under the conditions of an experiment."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from adaptive_batching.simulation.bounds.clairvoyant import on_time_at_most
from adaptive_batching.simulation.bounds.optimum import least_mean_latency
from adaptive_batching.simulation.servers.servers import Server, UnevenServers
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.traffic.arrivals import Times
from adaptive_batching.units import format_duration

Kind = Literal["exact", "upper bound", "without noise"]


@dataclass(frozen=True, slots=True)
class Limit:
    """What no policy beats.

    Attributes:
        goodput: Share of the requests that a server with all arrivals known could answer in time,
            however many may wait; None without requests.
        kind: Whether that can be reached (`exact`), or is merely never passed (`upper bound`: see
            `relaxed`), or holds for the mean durations of a noisy worker, which luck may beat
            (`without noise`).
        mean_latency: The least that any policy expects over a long run (seconds), if it knows no
            arrival beforehand and refuses nothing: for one worker, Poisson arrivals of one item
            and no noise; None otherwise, and where the load is too near to the capacity.
        relaxed: What the bound takes for granted though it is not so.
    """

    goodput: float | None
    kind: Kind
    mean_latency: float | None = None
    relaxed: Sequence[str] = ()

    def __str__(self) -> str:
        goodput = "-" if self.goodput is None else f"{self.goodput:.2%}"
        known = f"limit: goodput {goodput} ({self.kind})"
        if self.relaxed:
            known += f", as if {' and '.join(self.relaxed)}"
        if self.mean_latency is None:
            return known
        return f"{known}, mean latency {format_duration(self.mean_latency)} expected"


def limit_of(experiment: Experiment, workers: int = 1, rate: float | None = None) -> Limit:
    """Compute the limit of an experiment.

    Args:
        experiment: The traffic, the workers' durations and the promise.
        workers: Batches that may run at the same time.
        rate: Arrivals a second if they are Poisson; None if they are not.

    Raises:
        ValueError: The arrivals are not known beforehand or not kept, clients send again, or
            durations depend on more than the size.
    """
    if not isinstance(experiment.arrivals, np.ndarray):
        raise ValueError("limit: expected arrivals that are known, got users or a stream")  # noqa: TRY004
    server, limits = experiment.server, experiment.limits
    if isinstance(server, UnevenServers):
        raise ValueError("limit: expected workers that are alike, got some that differ")  # noqa: TRY004
    if server.conditions:
        raise ValueError("limit: expected durations that depend on the size alone, got conditions")
    if server.costs is not None:
        raise ValueError("limit: expected durations that depend on the size alone, got costs")
    if experiment.retries is not None:
        raise ValueError("limit: expected requests that are sent once, got clients who send again")
    counted = experiment.only(np.flatnonzero(experiment.arrivals >= experiment.warmup))
    times = counted.arrivals
    assert isinstance(times, np.ndarray)
    due = times + _patience(counted, len(times))
    mean, delay = server.mean, experiment.loop_delay
    # What is noticed late starts and ends late. But a batch that waits at a shared worker begins
    # without anybody's notice, so there only the answer is late.
    rest, news = (0.0, delay) if experiment.fleet.shared else (delay, 0.0)
    on_time, exact = on_time_at_most(
        times + delay,
        lambda size: mean(size) + rest,
        due=due - news,
        max_batch_size=limits.max_batch_size,
        workers=workers,
        sizes=counted.sizes,
    )
    relaxed = _relaxed(experiment, counted, due, workers)
    kind: Kind = (
        "without noise" if server.noisy else "exact" if exact and not relaxed else "upper bound"
    )
    share = on_time / len(times) if len(times) else None
    return Limit(share, kind, _least_mean(experiment, rest, delay + news, workers, rate), relaxed)


def _patience(experiment: Experiment, requests: int) -> Times:
    usual = experiment.limits.max_latency
    own = experiment.max_latencies
    return np.full(requests, usual) if own is None else np.where(np.isnan(own), usual, own)


def _relaxed(experiment: Experiment, counted: Experiment, due: Times, workers: int) -> list[str]:
    """What the bound does not know; each of these only makes more possible."""
    timed = due[due < np.inf]
    sizes = counted.sizes or [1]
    relaxations = {
        "one worker were as fast as all": workers > 1,
        "one dispatcher had all requests": experiment.fleet.dispatchers > 1,
        "keys could share batches": experiment.keys is not None,
        "no deadline were before an earlier request's": bool((timed[1:] < timed[:-1]).any()),
        "all requests were as small as the smallest": min(sizes) < max(sizes),
        "no worker were busy after the warm-up": experiment.warmup > 0,
    }
    return [relaxation for relaxation, needed in relaxations.items() if needed]


def _least_mean(
    experiment: Experiment, rest: float, notice: float, workers: int, rate: float | None
) -> float | None:
    """The loop keeps a worker `rest` seconds longer, and each answer `notice` seconds besides."""
    server = experiment.server
    assert isinstance(server, Server)
    ideal = server.curve is None and not server.noisy
    alike = experiment.sizes is None and experiment.keys is None
    if rate is None or workers > 1 or not (ideal and alike):
        return None
    batches = range(1, experiment.limits.max_batch_size + 1)
    best = least_mean_latency(rate, np.array([server.mean(size) + rest for size in batches]))
    return None if best is None else best.mean_latency + notice
