"""What is left of the goodput in overload?

Covers: goodput at half to ten times the capacity, of every policy, as a share of what a clairvoyant
could have answered in time; the limit itself as a share of the requests.

One worker, batches of 5 ms + 0.05 ms * n, at most 64 items, within 25 ms. Two seconds of Poisson
traffic at half the capacity, to learn from, then the overload; its first 6,000 requests count.

Answer: who sheds only what has expired answers nearly everybody too late. `cork` and the others
that shed by a prediction keep nearly all that anyone could have kept. At ten times the capacity all
that counts are twelve batches, and one more or less is luck.
"""

import numpy as np
from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Server, limit_of, poisson

CAPACITY = 64 / 8.2e-3  # requests a second
WARMUP = 2.0  # seconds
POLICIES = ("cork", "greedy", "greedy+drop", "window:2ms", "aimd", "nexus", "deferred", "bentoml")


def overload(load: float) -> Experiment:
    """Half the capacity, then so many times the capacity."""
    rate = load * CAPACITY
    calm = poisson(0.5 * CAPACITY, WARMUP, seed=1)
    storm = WARMUP + poisson(rate, 6_000 / rate, seed=2)
    arrivals = np.concatenate([calm, storm])
    return Experiment(arrivals, Server(5e-3, 0.05e-3), Limits(64, 25e-3), warmup=WARMUP)


print("load    limit |" + "".join(f"{policy:>12}" for policy in POLICIES))
for load in drawn((0.5, 1.0, 1.2, 2.0, 5.0, 10.0)):
    experiment = overload(load)
    limit = limit_of(experiment).goodput or 0.0
    shares = [(experiment.run(policy).goodput or 0.0) / limit for policy in POLICIES]
    print(f"{load:4.1f} {limit:8.2%} |" + "".join(f"{share:12.1%}" for share in shares))
