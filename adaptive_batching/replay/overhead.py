"""What a service on this machine adds to its model.

A simulation knows the model and the scheduler. It does not know the network, the HTTP server, the
pipe to the worker, other programs, or that a sleep ends late and a timer later; so all that is
measured and told to it: how long workers were taken and what answers took besides, as
distributions. It is never told what waited, or for how long.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy.stats import theilslopes

from adaptive_batching.replay.live import Conditions, Measured, send
from adaptive_batching.simulation import Server, poisson

_SECONDS = 1.5  # at half the rate, and again at the rate
_ASKED = 60  # timers


@dataclass(frozen=True, slots=True)
class Overhead:
    """What the simulation is told. Times in seconds.

    Attributes:
        fixed: What a batch takes until its worker can have the next one.
        per_item: What each item adds to that.
        residuals: What each measured batch took longer than that, in order of time.
        waits: What measured requests took besides, from the sending to the queue and from the end
            of their batch to their client, in order of time.
        timer_resolution: Of the wake-ups.
    """

    fixed: float
    per_item: float
    residuals: tuple[float, ...]
    waits: tuple[float, ...]
    timer_resolution: float

    @property
    def server(self) -> Server:
        """The workers as they are."""
        return Server(self.fixed, self.per_item, residuals=self.residuals)

    @property
    def scatter(self) -> float:
        """Standard deviation of the residuals (seconds)."""
        return float(np.std(self.residuals)) if self.residuals else 0.0

    @property
    def request(self) -> float:
        """Mean of the waits (seconds)."""
        return fmean(self.waits) if self.waits else 0.0


async def probe(conditions: Conditions, rate: float, seed: int) -> Measured:
    """Send Poisson traffic, first of half the rate, so that batches differ, then of the rate.

    Args:
        conditions: What is served.
        rate: Requests a second.
        seed: Of the traffic.

    Raises:
        LoadError: The generator failed, rather than its requests.
    """
    half = poisson(rate / 2, _SECONDS, seed=seed)
    whole = _SECONDS + poisson(rate, _SECONDS, seed=seed + 1)
    return await send(conditions, np.array([*half, *whole] or [0.0]))


async def overhead_of(measured: Sequence[Measured], conditions: Conditions) -> Overhead:
    """What was measured, as a simulation can be told."""
    taken = [batch for each in measured for batch in each.taken]
    waits = tuple(wait for each in measured for wait in each.waits)
    return Overhead(*_line(taken, conditions), waits, await _timer_resolution())


def _line(
    taken: list[tuple[int, float]], conditions: Conditions
) -> tuple[float, float, tuple[float, ...]]:
    """The slope that no pause bends, the level that matches the mean, what is left of each."""
    sizes = np.array([size for size, _ in taken])
    durations = np.array([seconds for _, seconds in taken])
    if len(set(sizes.tolist())) < 2:
        return conditions.fixed, conditions.per_item, ()
    slope = max(0.0, float(theilslopes(durations, sizes).slope))
    level = max(0.0, float((durations - slope * sizes).mean()))
    return level, slope, tuple((durations - level - slope * sizes).tolist())


async def _timer_resolution() -> float:
    """Twice the median lateness of this loop's timers: as if they came at multiples of it."""
    late = []
    for asked in np.linspace(0.2e-3, 2.2e-3, _ASKED).tolist():
        begun = time.perf_counter()
        await asyncio.sleep(asked)
        late.append(time.perf_counter() - begun - asked)
    return max(0.0, 2.0 * float(np.median(late)))
