"""A model that is twice as fast, asked twice as often: the same decisions in half the time."""

from collections.abc import Sequence

import pytest

from adaptive_batching.core import Limits, Scheduler, make_policy
from adaptive_batching.simulation import Server, clumped, mmpp, poisson, simulate
from adaptive_batching.simulation.traffic.arrivals import Times

_Batch = tuple[float, int, str]
CAPACITY = 64 / 8.2e-3  # requests a second and worker


def batches(
    arrivals: Times, workers: int, promise: float, scale: float, deadlines: Sequence[float] | None
) -> list[_Batch]:
    """When which batch left, in units of the scale, with all times multiplied by it."""
    scheduler = Scheduler(
        make_policy("cork"), Limits(64, promise * scale), workers, timer_resolution=0.0
    )
    server = Server(5e-3 * scale, 0.05e-3 * scale, jitter=0.1)
    history = simulate(
        arrivals * scale,
        scheduler,
        server.service(seed=1),
        max_latencies=None if deadlines is None else [each * scale for each in deadlines],
    )
    return [(each.released / scale, each.size, each.reason.name) for each in history.batches]


@pytest.mark.parametrize("scale", [2.0**-3, 2.0**3, 2.0**7])
@pytest.mark.parametrize(
    ("traffic", "workers", "load", "promise", "own"),
    [
        (poisson, 1, 0.7, float("inf"), 0),
        (poisson, 4, 1.1, 12e-3, 0),
        (mmpp, 2, 0.8, 25e-3, 0),
        (clumped, 4, 0.3, 25e-3, 0),
        (poisson, 1, 1.2, 50e-3, 4),
    ],
)
def test_with_all_times_multiplied_the_decisions_are_the_same(
    traffic, workers: int, load: float, promise: float, own: int, scale: float
) -> None:
    """Nothing that is decided hinges on how long a second is, but the resolution of timers."""
    rate = load * workers * CAPACITY
    arrivals = traffic(rate, 4_000 / rate, seed=1)
    deadlines = [promise / (1 + number % own) for number in range(len(arrivals))] if own else None
    expected = batches(arrivals, workers, promise, 1.0, deadlines)
    assert len(expected) > 40
    assert batches(arrivals, workers, promise, scale, deadlines) == expected
