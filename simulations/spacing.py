"""Does it pay to space out the releases of several workers?

Covers: `cork` against `greedy`: the mean and 99th percentile of the latency in milliseconds, and
how uneven the gaps between releases are (coefficient of variation; 1 is as uneven as chance).

Poisson traffic, batches of 5 ms + 0.05 ms * n, at most 64 items, no jitter, no deadline.
"""

from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Row, Server, poisson

CAPACITY = 64 / 8.2e-3  # items per second and worker


def measure(policy: str, workers: int, load: float) -> Row:
    """One policy at one load (a share of the workers' capacity)."""
    rate = load * workers * CAPACITY
    arrivals = poisson(rate, 60_000 / rate, seed=1)
    experiment = Experiment(arrivals, Server(5e-3, 0.05e-3), Limits(max_batch_size=64))
    return experiment.run(policy, workers)


def numbers(row: Row) -> tuple[float, float, float]:
    """Mean and 99th percentile in milliseconds, and the unevenness of the gaps."""
    assert row.mean_latency is not None
    assert row.p99_latency is not None
    assert row.release_gap_cv is not None
    return row.mean_latency * 1e3, row.p99_latency * 1e3, row.release_gap_cv


print("workers load | greedy: mean    p99  gaps | cork: mean    p99  gaps |  mean    p99")
for workers in (1, 2, 4, 8):
    for load in drawn((0.1, 0.5, 0.8)):
        greedy = numbers(measure("greedy", workers, load))
        cork = numbers(measure("cork", workers, load))
        cells = " | ".join("      {:6.2f} {:6.2f}  {:.2f}".format(*row) for row in (greedy, cork))
        mean, p99 = (after / before - 1 for before, after in zip(greedy[:2], cork[:2], strict=True))
        print(f"{workers:7} {load:4.0%} | {cells} | {mean:+6.1%} {p99:+6.1%}")
