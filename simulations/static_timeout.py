"""What does a static timeout cost when the load moves?

Covers: the mean latency in milliseconds of `window` with four timeouts, `greedy` and `cork`, at
loads from a hundredth of the capacity to nine tenths, and for each the worst that it loses against
the best of them at the same load.

Poisson traffic, batches of 5 ms + 0.05 ms * n, at most 64 items, no jitter, no deadline; one worker
and four.

Answer: with one worker a timeout is a loss at low load and worth nothing at high. With four, the
best one follows the load, from 0 to 2 ms here, and each is 20 % or more behind at some other load;
`cork` follows by itself and is 4 % behind the best of them at the worst.
"""

from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Server, poisson

CAPACITY = 64 / 8.2e-3  # requests a second and worker
POLICIES = ("greedy", "window:1ms", "window:2ms", "window:5ms", "window:10ms", "cork")


def mean_latency(policy: str, workers: int, load: float) -> float:
    """Milliseconds, of 8,000 requests."""
    rate = load * workers * CAPACITY
    arrivals = poisson(rate, 8_000 / rate, seed=1)
    row = Experiment(arrivals, Server(5e-3, 0.05e-3), Limits(64)).run(policy, workers)
    return (row.mean_latency or 0.0) * 1e3


print("workers  load |" + "".join(f"{policy:>12}" for policy in POLICIES))
for workers in drawn((1, 4)):
    worst = dict.fromkeys(POLICIES, 0.0)
    for load in (0.01, 0.05, 0.2, 0.5, 0.9):
        means = {policy: mean_latency(policy, workers, load) for policy in POLICIES}
        for policy, mean in means.items():
            worst[policy] = max(worst[policy], mean / min(means.values()) - 1)
        print(f"{workers:7} {load:5.0%} |" + "".join(f"{mean:12.2f}" for mean in means.values()))
    print("        worst |" + "".join(f"{loss:+12.1%}" for loss in worst.values()) + "\n")
