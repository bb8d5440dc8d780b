"""Is greedy optimal with one worker?

Covers: the mean latency of `greedy` and `cork` beside the best control limit ("serve from n waiting
on"), which no policy beats that knows no arrival beforehand; and, in overload, their goodput beside
what a clairvoyant could have done.

Poisson traffic, batches of 5 ms + 0.05 ms * n, at most 64 items, no jitter; the same arrivals for
all. Half a percent either way is the luck of the sample.

Answer: yes, nearly. Below capacity waiting gains half a percent at most, so a batch leaves at once.
Above it greedy serves everybody too late; who sheds first comes within a point of the limit.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from drawn import drawn

from adaptive_batching import BatchRecord, Dispatch, Hold, Reason, Situation
from adaptive_batching.core import Limits, PolicyLike
from adaptive_batching.simulation import Experiment, Server, limit_of, poisson
from adaptive_batching.simulation.bounds.optimum import least_mean_latency

SERVER = Server(5e-3, 0.05e-3)
CAPACITY = 64 / SERVER.mean(64)  # requests a second
DURATIONS = np.array([SERVER.mean(size) for size in range(1, 65)])
PROMISE = 25e-3  # seconds


@dataclass
class FromJobsOn:
    """Serves as soon as so many jobs wait."""

    jobs: int

    def decide(self, situation: Situation) -> Dispatch | Hold:
        """Release, or wait for the next job; not for ever, for the last ones have no next."""
        due = situation.head.arrived + 1.0
        if situation.items < self.jobs and situation.now < due:
            return Hold(due)
        return Dispatch(situation.limits.max_batch_size, Reason.IDLE)

    def observe(self, batch: BatchRecord) -> None:
        """Learn nothing."""


def mean_latency(load: float, policy: PolicyLike) -> float:
    """Milliseconds, of 20,000 requests."""
    rate = load * CAPACITY
    experiment = Experiment(poisson(rate, 20_000 / rate, seed=1), SERVER, Limits(64))
    return (experiment.run(policy).mean_latency or 0.0) * 1e3


def in_overload(load: float) -> tuple[float, float, float]:
    """Goodput of greedy, of cork, and the limit, of 12,000 requests."""
    rate = load * CAPACITY
    arrivals = poisson(rate, 12_000 / rate, seed=1)
    experiment = Experiment(arrivals, SERVER, Limits(64, PROMISE))
    greedy, cork = (experiment.run(policy).goodput or 0.0 for policy in ("greedy", "cork"))
    return greedy, cork, limit_of(experiment).goodput or 0.0


print("load | greedy ms  cork ms | serve from     ms | greedy    cork")
for load in drawn((0.02, 0.05, 0.1, 0.2, 0.5, 0.9)):
    optimum = least_mean_latency(load * CAPACITY, DURATIONS)
    assert optimum is not None
    best = mean_latency(load, partial(FromJobsOn, optimum.jobs))
    greedy, cork = mean_latency(load, "greedy"), mean_latency(load, "cork")
    cells = f"{greedy:9.2f} {cork:8.2f} | {optimum.jobs:10} {best:6.2f}"
    print(f"{load:4.0%} | {cells} | {greedy / best - 1:+6.2%} {cork / best - 1:+6.2%}")

print("\nload | goodput: greedy   cork  limit | cork of limit")
for load in drawn((0.8, 0.9, 1.0, 1.1, 1.2)):
    greedy, cork, limit = in_overload(load)
    print(f"{load:4.0%} | {greedy:15.2%} {cork:6.2%} {limit:6.2%} | {cork / limit:13.2%}")
