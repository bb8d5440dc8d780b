"""What if items cost so much that the first of a batch wait long for its last?

Covers: the mean latency (ms) of `cork` and of `greedy`, and with one worker the least that any
policy can reach who knows no arrival beforehand.

Poisson traffic, no jitter, at most 64 items, no deadline. The load is a share of what the workers
could do with full batches.

Answer: serving what waits in parts is worth most where the fixed part is small, up to a third of
the mean latency; with one worker `cork` is within 2.4 per cent of the best. Where the fixed
part is large, or the load high, its batches are as `greedy` makes them, but for their distance.
"""

from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Server, limit_of, poisson

REQUESTS = 15_000
MODELS = ((0.1e-3, 5e-3), (1e-3, 5e-3), (1e-3, 1e-3), (2e-3, 0.5e-3))  # seconds


def ms(seconds: float | None) -> str:
    """A column."""
    return "      -" if seconds is None else f"{seconds * 1e3:7.2f}"


print("   fixed   per item  workers load |  greedy    cork   least")
for fixed, per_item in MODELS:
    for workers in drawn((1, 2, 4)):
        for load in drawn((0.3, 0.6, 0.8)):
            rate = load * workers * 64 / (fixed + 64 * per_item)
            arrivals = poisson(rate, REQUESTS / rate, seed=1)
            traffic = Experiment(arrivals, Server(fixed, per_item), Limits(64))
            greedy, cork = (traffic.run(policy, workers) for policy in ("greedy", "cork"))
            least = limit_of(traffic, workers, rate).mean_latency
            means = " ".join(map(ms, (greedy.mean_latency, cork.mean_latency, least)))
            model = f"{fixed * 1e3:5.1f} ms {per_item * 1e3:7.1f} ms"
            print(f"{model} {workers:8} {load:4.0%} | {means}")
