"""How near do the policies come to what a clairvoyant could have done?

Covers: goodput of `cork` and `greedy` as a share of all requests, beside the most that anyone who
knows all arrivals can answer in time (exact for one worker, an upper bound for several).

Poisson traffic of 24,000 requests, batches of 5 ms + 0.05 ms * n, at most 64 items, no jitter.
"""

from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Server, limit_of, poisson

CAPACITY = 64 / 8.2e-3  # items per second and worker


def cells(workers: int, promise: float, load: float) -> str:
    """Limit, cork and greedy at one load (a share of the workers' capacity)."""
    rate = load * workers * CAPACITY
    arrivals = poisson(rate, 24_000 / rate, seed=1)
    experiment = Experiment(arrivals, Server(5e-3, 0.05e-3), Limits(64, promise))
    known = [limit_of(experiment, workers).goodput]
    known += [experiment.run(policy, workers).goodput for policy in ("cork", "greedy")]
    return " | ".join(f"{share:7.2%}" for share in known if share is not None)


print("workers within load |   limit |    cork |  greedy")
for workers, promise in ((1, 25e-3), (1, 12e-3), (4, 12e-3)):
    for load in drawn((0.6, 0.8, 0.9, 1.0, 1.2)):
        condition = f"{workers:7} {promise * 1e3:3.0f} ms {load:4.0%}"
        print(f"{condition} | {cells(workers, promise, load)}")
