"""How good any policy could have been under the conditions of an experiment."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from adaptive_batching.simulation.clairvoyant import on_time_at_most
from adaptive_batching.simulation.experiment import Experiment
from adaptive_batching.simulation.optimum import least_mean_latency
from adaptive_batching.simulation.servers import UnevenServers
from adaptive_batching.units import format_duration

Kind = Literal["exact", "upper bound", "without noise"]


@dataclass(frozen=True, slots=True)
class Limit:
    """What no policy beats.

    Attributes:
        goodput: Share of the requests that who knows all arrivals could answer in time, however
            many may wait; None without requests.
        kind: Whether that can be reached (`exact`), or is merely never passed (`upper bound`:
            several workers, items of several sizes, or a warm-up whose end finds nobody busy), or
            holds for the mean durations of a noisy worker, which luck may beat (`without noise`).
        mean_latency: The least that any policy expects over a long run (seconds), if it knows no
            arrival beforehand and refuses nothing: for one worker, Poisson arrivals of one item
            and no noise; None otherwise, and where the load is too near to the capacity.
    """

    goodput: float | None
    kind: Kind
    mean_latency: float | None = None

    def __str__(self) -> str:
        goodput = "-" if self.goodput is None else f"{self.goodput:.2%}"
        known = f"limit: goodput {goodput} ({self.kind})"
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
        ValueError: The arrivals are not known beforehand or not kept, or durations depend on
            more than the size.
    """
    if not isinstance(experiment.arrivals, np.ndarray):
        raise ValueError("limit: expected arrivals that are known, got users or a stream")  # noqa: TRY004
    server, limits = experiment.server, experiment.limits
    if isinstance(server, UnevenServers):
        raise ValueError("limit: expected workers that are alike, got some that differ")  # noqa: TRY004
    if server.conditions:
        raise ValueError("limit: expected durations that depend on the size alone, got conditions")
    counted = experiment.arrivals >= experiment.warmup
    times = experiment.arrivals[counted]
    sizes = None if experiment.sizes is None else np.asarray(experiment.sizes)[counted].tolist()
    on_time, exact = on_time_at_most(
        times,
        server.mean,
        max_latency=limits.max_latency,
        max_batch_size=limits.max_batch_size,
        workers=workers,
        sizes=sizes,
    )
    mean = None
    simple = sizes is None and server.curve is None and not server.noisy
    if rate is not None and workers == 1 and simple:
        batches = range(1, limits.max_batch_size + 1)
        best = least_mean_latency(rate, np.array([server.mean(size) for size in batches]))
        mean = None if best is None else best.mean_latency
    exact = exact and len(times) == len(experiment.arrivals)
    kind: Kind = "without noise" if server.noisy else "exact" if exact else "upper bound"
    return Limit(on_time / len(times) if len(times) else None, kind, mean)
