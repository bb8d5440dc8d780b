"""What if the batches of one key take longer than those of another?

Covers: the goodput of `cork` and `greedy` in per cent of all requests, that of the dearest key with
each, and the mean latency of those answered, by what batches of the keys cost.

Batches of 5 ms + 0.05 ms * n, times the cost of their key, at most 64 items, within 100 ms. The
more a key costs the fewer requests it has, so that each key asks for as much of the workers as
another. The load is a share of what the workers could do with full batches. The same traffic for
both policies: 1,000 requests for each worker to learn from and 4,000 that count.

Answer: `cork` learns for each key how long its batches take, and holds, refuses and chooses by
that. So it answers up to eight times as many in time as `greedy`, which forecasts nothing. Where
not all can be in time the dearest key has least: a second of a worker answers most of the cheapest.
"""

import numpy as np
from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, KeyCosts, Row, Server, poisson

CAPACITY = 64 / 8.2e-3  # requests a second and worker, of a key that costs 1
LEARNING, COUNTED = 1_000, 4_000  # requests for each worker
COSTS = ((1, 8), (1, 4), (1, 2, 4, 8), (1, 1))


def experiment(costs: tuple[int, ...], workers: int, load: float) -> Experiment:
    """One cell."""
    shares = np.array([1 / cost for cost in costs])
    shares /= shares.sum()
    rate = load * workers * CAPACITY / float(shares @ costs)
    arrivals = poisson(rate, (LEARNING + COUNTED) * workers / rate, seed=1)
    keys = np.random.default_rng(1).choice(len(costs), len(arrivals), p=shares).tolist()
    server = Server(5e-3, 0.05e-3, conditions=(KeyCosts(dict(enumerate(costs))),))
    warmup = LEARNING * workers / rate
    return Experiment(arrivals, server, Limits(64, 100e-3), keys=keys, warmup=warmup)


def told(row: Row, dearest: int) -> str:
    """Goodput, that of the dearest key, and the mean latency."""
    of_key = (row.keys or {})[str(dearest)].goodput
    mean = "-" if row.mean_latency is None else f"{row.mean_latency * 1e3:.1f}"
    return f"{(row.goodput or 0.0) * 100:6.1f} {of_key * 100:7.1f} {mean:>7}"


print("costs   workers load |   cork dearest mean ms | greedy dearest mean ms")
for costs in COSTS:
    for workers in (1, 2):
        for load in drawn((0.5, 0.8, 1.2)):
            cell = experiment(costs, workers, load)
            rows = [cell.run(policy, workers) for policy in ("cork", "greedy")]
            figures = " | ".join(told(row, len(costs) - 1) for row in rows)
            print(f"{':'.join(map(str, costs)):7} {workers:7} {load:4.0%} | {figures}")
