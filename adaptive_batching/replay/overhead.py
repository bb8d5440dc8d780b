"""What a service on this machine adds to its model, measured on traffic of its own.

A simulation knows the model and the scheduler. It does not know the network, the HTTP server, the
pipe to the worker, or that a sleep ends late and a timer later; so all that is measured, on Poisson
traffic of the same rate that is thrown away afterwards, and told to it.
"""

import asyncio
import time
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy.stats import theilslopes

from adaptive_batching.core import BatchRecord, JobOutcome
from adaptive_batching.replay.live import Conditions, Measured, send
from adaptive_batching.simulation import Server, poisson

_SECONDS = 1.5  # at half the rate, and again at the rate
_ASKED = 60  # timers


@dataclass(frozen=True, slots=True)
class Overhead:
    """What the simulation is told. Times in seconds.

    Attributes:
        request: From a request's instant to the queue and from its batch's end to its client.
        fixed: What a batch takes, as the scheduler sees it.
        per_item: What each item adds, as the scheduler sees it.
        jitter: Standard deviation of a batch's duration, relative.
        timer_resolution: Of the wake-ups.
    """

    request: float
    fixed: float
    per_item: float
    jitter: float
    timer_resolution: float

    @property
    def server(self) -> Server:
        """The workers as they are."""
        return Server(self.fixed, self.per_item, self.jitter)


async def measure(conditions: Conditions, rate: float, *, seconds: float = _SECONDS) -> Overhead:
    """Measure it on Poisson traffic, first of half the rate, then of the rate.

    Args:
        conditions: What is served.
        rate: Requests a second.
        seconds: Of each of the two.

    Raises:
        LoadError: The generator failed, rather than its requests.
    """
    half = poisson(rate / 2, seconds, seed=1)
    whole = seconds + poisson(rate, seconds, seed=2)
    instants = [*half.tolist(), *whole.tolist()] or [0.0]
    measured = await send(conditions, instants)
    fixed, per_item, jitter = _line(measured.history.batches, conditions)
    return Overhead(_request(measured), fixed, per_item, jitter, await _timer_resolution())


def _request(measured: Measured) -> float:
    """What clients waited beyond what the scheduler saw; errors and refusals say nothing."""
    waits = [job.latency for job in measured.history.jobs if job.outcome is JobOutcome.DONE]
    return max(0.0, fmean(waits) - measured.latency) if waits else 0.0


def _line(batches: list[BatchRecord], conditions: Conditions) -> tuple[float, float, float]:
    """The slope that no pause bends, the level that matches the mean, the scatter about both."""
    sizes = np.array([batch.size for batch in batches])
    durations = np.array([batch.duration for batch in batches])
    if len(set(sizes.tolist())) < 2:
        return conditions.fixed, conditions.per_item, 0.0
    slope = max(0.0, float(theilslopes(durations, sizes).slope))
    level = max(0.0, float((durations - slope * sizes).mean()))
    expected = level + slope * sizes
    residuals = durations / expected - 1.0
    return level, slope, float(residuals.std())


async def _timer_resolution() -> float:
    """Twice the median lateness of this loop's timers: as if they came at multiples of it."""
    late = []
    for asked in np.linspace(0.2e-3, 2.2e-3, _ASKED).tolist():
        begun = time.perf_counter()
        await asyncio.sleep(asked)
        late.append(time.perf_counter() - begun - asked)
    return max(0.0, 2.0 * float(np.median(late)))
