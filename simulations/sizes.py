"""What if requests bring several items each?

Covers: `greedy`, `window:2ms` and `cork` for requests of 1 to 16 items: the mean latency in
milliseconds where nothing is promised, and the goodput within 25 ms.

Poisson traffic, four items a request on average (geometric, cut at 16); batches of 5 ms + 0.05 ms
* n, at most 64 items, so a request that doesn't fit stays behind and batches are rarely full.

Answer: the same as for single items, as long as whoever waits is counted in requests and what a
worker can do in items. (Counted in items throughout, a request of four looked like four who wait,
and `cork` held four workers' batches for a third of what it should: 8.7 ms at 60 % for 7.8.)
"""

import numpy as np
from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Row, Server, poisson

CAPACITY = 64 / 8.2e-3  # items per second and worker, if each batch were full
LARGEST = 16
POLICIES = ("greedy", "window:2ms", "cork")
REQUESTS = 8_000


def measure(policy: str, workers: int, load: float, limits: Limits) -> Row:
    """One policy at one load (a share of the workers' capacity)."""
    rng = np.random.default_rng(3)
    sizes = np.minimum(rng.geometric(0.25, 2 * REQUESTS), LARGEST)
    rate = load * workers * CAPACITY / float(sizes.mean())
    arrivals = poisson(rate, REQUESTS / rate, seed=1)
    experiment = Experiment(
        arrivals, Server(5e-3, 0.05e-3), limits, sizes=sizes[: len(arrivals)].tolist()
    )
    return experiment.run(policy, workers)


def cells(workers: int, load: float) -> list[str]:
    """The means, and then the goodputs."""
    kept = [measure(policy, workers, load, Limits(64)).mean_latency for policy in POLICIES]
    means = [f"{(mean or 0.0) * 1e3:11.2f}" if load < 1 else f"{'-':>11}" for mean in kept]
    promised = [measure(policy, workers, load, Limits(64, 25e-3)).goodput for policy in POLICIES]
    return means + [f"{goodput or 0.0:11.2%}" for goodput in promised]


print("mean latency (ms), then goodput")
print("workers load |" + 2 * "".join(f"{policy:>11}" for policy in POLICIES))
for workers in (1, 4):
    for load in drawn((0.1, 0.3, 0.6, 0.9, 1.2)):
        print(f"{workers:7} {load:4.0%} |" + "".join(cells(workers, load)))
