"""Does it pay to wait for the rest of a clump, and with long batches?

Covers: the mean and 99th percentile of the latency in milliseconds, with one worker, of callers who
fan out into 8 requests within a millisecond; then the change against `greedy` with models whose
batches take long in proportion to their size.

Clumps: batches of 5 ms + 0.05 ms * n, at most 64. Long batches: 2 ms + 0.5 ms * n, at most 32,
Poisson traffic. A jitter of 0.05, no deadline; 10,000 requests, the same for all.

Answer: yes, while most of it is still out. `cork` knows how many there usually are, and does not
wait once they are here; `bentoml` waits for its clock, which happens to take as long as a clump.
With long batches a worker that is let idle costs capacity: `cork` does it only while the others
can carry the load.
"""

from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Row, Server, clumped, poisson

BASE, LONG = Server(5e-3, 0.05e-3, jitter=0.05), Server(2e-3, 0.5e-3, jitter=0.05)
CAPACITY, LONG_CAPACITY = 64 / 8.2e-3, 32 / 18e-3  # requests a second and worker
REQUESTS = 10_000
POLICIES = ("greedy", "window:2ms", "bentoml", "cork")


def fanned_out(policy: str, load: float) -> str:
    """Mean and 99th percentile."""
    rate = load * CAPACITY
    arrivals = clumped(rate, REQUESTS / rate, seed=1)
    row = Experiment(arrivals, BASE, Limits(64), warmup=0.1 * REQUESTS / rate).run(policy)
    assert row.mean_latency is not None
    assert row.p99_latency is not None
    return f"{row.mean_latency * 1e3:7.2f} {row.p99_latency * 1e3:5.1f}"


def long_batches(policy: str, workers: int, load: float) -> Row:
    """One policy on a model of which most is work on the items."""
    rate = load * LONG_CAPACITY * workers
    arrivals = poisson(rate, REQUESTS / rate, seed=1)
    experiment = Experiment(arrivals, LONG, Limits(32), warmup=0.1 * REQUESTS / rate)
    return experiment.run(policy, workers)


def change(policy: str, workers: int, load: float) -> str:
    """Against greedy, of the mean and of the 99th percentile."""
    greedy, row = (long_batches(name, workers, load) for name in ("greedy", policy))
    assert greedy.mean_latency is not None
    assert greedy.p99_latency is not None
    mean = (row.mean_latency or 0.0) / greedy.mean_latency - 1
    return f"{mean:+7.1%} {(row.p99_latency or 0.0) / greedy.p99_latency - 1:+7.1%}"


print("clumps |" + " |".join(f"{policy:>13}" for policy in POLICIES))
for load in drawn((0.02, 0.05, 0.1, 0.3, 0.5)):
    print(f"{load:6.0%} |" + " |".join(fanned_out(policy, load) for policy in POLICIES))
print("\nlong batches | 2 workers: cork | 4 workers: cork")
for load in drawn((0.1, 0.3, 0.5, 0.7, 0.9)):
    print(f"{load:12.0%} | " + " | ".join(change("cork", workers, load) for workers in (2, 4)))
