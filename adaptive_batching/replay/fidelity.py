"""Live beside simulated: the same requests, the same scheduler, two clocks."""

from dataclasses import dataclass, replace

from adaptive_batching.core import Scheduler, make_policy
from adaptive_batching.replay.live import Conditions, send
from adaptive_batching.replay.overhead import Overhead, measure
from adaptive_batching.simulation import History, Row, simulate, summarize
from adaptive_batching.simulation.arrivals import Times


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was measured and what was simulated, and what the simulation was told.

    Attributes:
        measured: As the clients saw it.
        simulated: In virtual time, with the overhead.
        overhead: Of this machine.
        lag: 99th percentile of how late the generator was (seconds); what it adds to the latencies
            is no fault of the service.
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
) -> Comparison:
    """Send requests to a service, and simulate what it should have done.

    Args:
        conditions: What is served.
        instants: When requests are sent (seconds from the beginning), in order; at least one.
        timer_resolution: Of the simulation's wake-ups (seconds); measured if None.
        warmup: Seconds at the start that are left out of both.
        seed: Of the simulated workers' jitter.

    Raises:
        LoadError: The generator failed, rather than its requests.
    """
    rate = len(instants) / max(float(instants[-1]), 1e-3)
    overhead = await measure(conditions, rate)
    if timer_resolution is not None:
        overhead = replace(overhead, timer_resolution=timer_resolution)
    measured = await send(conditions, instants)
    return Comparison(
        _row("measured", measured.history, conditions, warmup),
        _row("simulated", foretell(conditions, instants, overhead, seed), conditions, warmup),
        overhead,
        measured.lag,
    )


def foretell(conditions: Conditions, instants: Times, overhead: Overhead, seed: int = 0) -> History:
    """What clients should see: the simulation, and what a request takes besides."""
    limits = conditions.limits
    history = simulate(
        instants,
        Scheduler(make_policy(conditions.policy), limits, conditions.workers),
        overhead.server.service(seed),
        timer_resolution=overhead.timer_resolution,
    )
    later = [job._replace(finished=job.finished + overhead.request) for job in history.jobs]
    return History(later, history.batches)


def _row(name: str, history: History, conditions: Conditions, warmup: float) -> Row:
    return summarize(
        history,
        policy=name,
        workers=conditions.workers,
        warmup=warmup,
    )
