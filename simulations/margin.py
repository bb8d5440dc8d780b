"""What does a p99 margin cost?

Covers: the goodput when a job is shed unless it makes its deadline on average, with nine batches in
ten, or with 99 in a hundred.

One worker, batches of 5 ms + 0.05 ms * n with a jitter of 0.1, of which 2 % meet a pause of 10 ms;
Poisson traffic; a greedy policy that knows the true distribution, so that nothing but the margin
differs.

Answer: the 99th percentile of a batch is a pause of the machine, and to be safe from it means to
refuse whoever can't afford one: 25 to 75 points of goodput where the promise is tight. The mean is
best below capacity. Nine in ten gain a point or two in overload, unless the promise is so tight
that they cost four; that is why `cork` takes them in overload only, and never beyond the promise.
"""

from dataclasses import dataclass

import numpy as np
from drawn import drawn

from adaptive_batching import BatchRecord, Dispatch, Hold, Reason, Shed, ShedReason, Situation
from adaptive_batching.core import Limits, PolicyLike
from adaptive_batching.simulation import Experiment, Server, poisson

SERVER = Server(5e-3, 0.05e-3, jitter=0.1, pause_probability=0.02, pause=10e-3)
CAPACITY = 64 / SERVER.mean(64)  # requests a second


@dataclass
class Margin:
    """Serves at once who can still make it if the batch takes `factor` times its mean."""

    factor: float

    def decide(self, situation: Situation) -> Dispatch | Hold | Shed:
        """Shed from the head, then release."""
        limit = situation.limits.max_batch_size
        left, hopeless = situation.items, []
        for job in situation.jobs:
            if situation.now + SERVER.mean(min(left, limit)) * self.factor <= job.deadline:
                break
            hopeless.append(job)
            left -= 1
        if hopeless:
            return Shed(hopeless, ShedReason.HOPELESS)
        return Dispatch(limit, Reason.IDLE)

    def observe(self, batch: BatchRecord) -> None:
        """Learn nothing: it knows."""


def factor(share: float) -> float:
    """What that share of full batches stays below, as a multiple of their mean."""
    service = SERVER.service(seed=7)
    return float(np.quantile([service(64) for _ in range(20_000)], share)) / SERVER.mean(64)


def goodput(policy: PolicyLike, load: float, promise: float) -> float:
    """Of some 15,000 requests."""
    rate = load * CAPACITY
    arrivals = poisson(rate, 15_000 / rate, seed=1)
    return Experiment(arrivals, SERVER, Limits(64, promise)).run(policy).goodput or 0.0


margins = {"mean": 1.0, "9 in 10": factor(0.9), "99 in 100": factor(0.99)}
print("times the mean: " + ", ".join(f"{name} {value:.2f}" for name, value in margins.items()))
print("\nwithin load |" + "".join(f"{name:>11}" for name in (*margins, "cork")))
for promise in (12e-3, 18e-3, 25e-3, 50e-3):
    for load in drawn((0.6, 0.9, 1.2)):
        row = [goodput(lambda by=by: Margin(by), load, promise) for by in margins.values()]
        row.append(goodput("cork", load, promise))
        cells = "".join(f"{share:11.2%}" for share in row)
        print(f"{promise * 1e3:3.0f} ms {load:4.0%} |{cells}")
