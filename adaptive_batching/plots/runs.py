"""What a report shows: every policy and number of workers with its records."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from adaptive_batching.core import BatchRecord, Limits, LinearLatency, Outcome
from adaptive_batching.core.job_class import latency_for
from adaptive_batching.simulation import Experiment, History, Limit, Row, limit_of
from adaptive_batching.simulation.traffic.shaping import expect_factor

_MOST_SWEPT = 20_000  # requests at each load: a curve needs no more, and a page shouldn't take long


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """One policy on so many workers.

    Attributes:
        name: For legends.
        history: Its records.
        learned: What a scheduler that saw all its batches believes of the workers in the end.
    """

    name: str
    history: History
    learned: LinearLatency


@dataclass(frozen=True, slots=True)
class Load:
    """All of them at one density of the traffic.

    Attributes:
        rate: Requests a second.
        rows: One for each run, in their order.
        limit: What no policy beats; None if it was not asked for.
    """

    rate: float
    rows: Sequence[Row]
    limit: Limit | None


def record(experiment: Experiment, policy: str, workers: int) -> PolicyRun:
    """Simulate with all records kept; the row of the same run is `Experiment.run`'s.

    Raises:
        ValueError: The traffic is a stream, of which no records can be kept.
    """
    if callable(experiment.arrivals):
        raise ValueError("report: expected traffic that is kept, got a stream")  # noqa: TRY004
    history = History()
    experiment.play(policy, workers, history)
    warm = experiment.warmup
    jobs = [job for job in history.jobs if job.arrived >= warm]
    batches = [batch for batch in history.batches if batch.released >= warm]
    name = f"{policy}, {workers} worker{'s' * (workers > 1)}"
    return PolicyRun(name, History(jobs, batches), _learned(history.batches, experiment.limits))


def _learned(batches: Sequence[BatchRecord], limits: Limits) -> LinearLatency:
    """Learn from batches in the order in which they ended, as the run's scheduler did."""
    latency = latency_for(limits)
    for batch in batches:
        if batch.outcome is Outcome.DONE:
            latency.observe(batch.size, batch.duration, batch.cost)
    return latency


def sweep(
    experiment: Experiment,
    runs: Sequence[tuple[str, int]],
    factors: Sequence[float],
    *,
    with_limit: bool = False,
) -> list[Load]:
    """This traffic made denser by a factor, at most its first 20,000 requests.

    Args:
        experiment: Its arrivals are known beforehand.
        runs: Policies and numbers of workers.
        factors: What the times are divided by.
        with_limit: Whether to compute the limit, for the workers of the first run.

    Raises:
        ValueError: The arrivals are users or a stream, or a factor is not positive.
    """
    arrivals = experiment.arrivals
    if not isinstance(arrivals, np.ndarray) or not len(arrivals):
        raise ValueError("load: expected arrivals that are known, got users or a stream")
    loads = []
    for factor in sorted(factors):
        expect_factor("load", factor)
        times = arrivals[:_MOST_SWEPT] / factor
        first = experiment.only(np.arange(len(times)))
        denser = replace(first, arrivals=times, warmup=experiment.warmup / factor)
        rows = [denser.run(policy, workers) for policy, workers in runs]
        limit = limit_of(denser, runs[0][1]) if with_limit else None
        loads.append(Load(len(times) / max(float(times[-1]), 1e-9), rows, limit))
    return loads
