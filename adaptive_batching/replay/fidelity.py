"""Live beside simulated: the same requests, the same scheduler, two clocks."""

from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from adaptive_batching.core import JobOutcome, JobRecord, Scheduler, make_policy
from adaptive_batching.replay.live import Conditions, send
from adaptive_batching.replay.overhead import Overhead, overhead_of, probe
from adaptive_batching.simulation import History, Row, simulate, summarize
from adaptive_batching.simulation.servers.servers import in_runs
from adaptive_batching.simulation.traffic.arrivals import Times

_RUN = 32  # neighbouring requests: about those of a batch, whose answers wait for each other
_STREAM = 5  # workers with the same seed must not share our random numbers


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was measured and what was simulated, and what the simulation was told.

    Attributes:
        measured: As the clients saw it.
        simulated: In virtual time, with the overhead.
        overhead: Of this machine.
        lag: 99th percentile of how late the generator was (seconds). It is in the latencies of
            both; where it nears a batch, the machine was too busy to measure anything.
    """

    measured: Row
    simulated: Row
    overhead: Overhead
    lag: float


async def compare(
    conditions: Conditions,
    instants: Times,
    *,
    timer_resolution: float | None = None,
    warmup: float = 0.0,
    seed: int = 0,
    apart: bool = False,
) -> Comparison:
    """Send requests to a service, and simulate what it should have done.

    Args:
        conditions: What is served.
        instants: When requests are sent (seconds from the beginning), in order; at least one.
        timer_resolution: Of the simulation's wake-ups (seconds); measured if None.
        warmup: Seconds at the start that are left out of both.
        seed: Of the simulated workers' luck.
        apart: Measure the overhead on other traffic, before and after, instead of on this.

    Raises:
        LoadError: The generator failed, rather than its requests.
    """
    rate = len(instants) / max(float(instants[-1]), 1e-3)
    probes = [await probe(conditions, rate, seed=1)] if apart else []
    measured = await send(conditions, instants)
    probes.append(await probe(conditions, rate, seed=3) if apart else measured)
    overhead = await overhead_of(probes, conditions)
    if timer_resolution is not None:
        overhead = replace(overhead, timer_resolution=timer_resolution)
    simulated = foretell(conditions, instants, measured.lags, overhead, seed)
    return Comparison(
        _row("measured", measured.history, conditions, warmup),
        _row("simulated", simulated, conditions, warmup),
        overhead,
        measured.lag,
    )


def foretell(
    conditions: Conditions, instants: Times, lags: Times, overhead: Overhead, seed: int = 0
) -> History:
    """What clients should see: the simulation, and what a request takes besides.

    Args:
        conditions: What is served.
        instants: When requests are to be sent (seconds), in order; latencies count from there.
        lags: How much later the generator sent each, which is no doing of the service (seconds).
        overhead: Of this machine.
        seed: Of the workers' luck.
    """
    sent = np.maximum.accumulate(instants + lags)
    history = simulate(
        sent,
        Scheduler(make_policy(conditions.policy), conditions.limits, conditions.workers),
        overhead.server.service(seed),
        timer_resolution=overhead.timer_resolution,
    )
    in_order = sorted(history.jobs, key=attrgetter("arrived"))
    waits = in_runs(overhead.waits or (0.0,), np.random.default_rng([_STREAM, seed]), _RUN)
    promise = conditions.limits.max_latency
    jobs = [
        _as_its_client_saw_it(job, scheduled, promise, wait)
        for job, scheduled, wait in zip(in_order, instants.tolist(), waits, strict=False)
    ]
    return History(jobs, history.batches)


def _as_its_client_saw_it(
    job: JobRecord, scheduled: float, promise: float, wait: float
) -> JobRecord:
    """No caller waits for a running batch beyond the deadline: the call ends when it comes."""
    finished, outcome = job.finished, job.outcome
    if outcome is JobOutcome.DONE and job.latency > promise:
        finished, outcome = job.arrived + promise, JobOutcome.EXPIRED
    return JobRecord(scheduled, finished + wait, job.size, outcome)


def _row(name: str, history: History, conditions: Conditions, warmup: float) -> Row:
    return summarize(
        history,
        policy=name,
        workers=conditions.workers,
        warmup=warmup,
    )
