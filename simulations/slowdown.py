"""What happens when batches suddenly take twice as long?

Covers: goodput before the change, in the second after it, in the two after that and in the next
five; of `cork`, of Nexus's early drop with the same estimate, of BentoML's rule with its own, and
of an oracle that is told of the change in its very instant; mean and worst of three seeds.

One worker, batches of 5 ms + 0.05 ms * n, at most 64 items, within 25 ms; Poisson traffic of 52 %
of the capacity. At 6 s batches become 10 ms + 0.1 ms * n: 4 % more traffic than the worker can
take, if all batches were full, and in a full one nobody may have waited longer than 9 ms.

Answer: `cork` believes it after four batches, and then takes slope and intercept to have grown
alike; it is a point or two behind the oracle in the first second and level with it from then on.
BentoML's fit lags for seconds. Jitter costs everybody: nobody knows whom a batch will be too late
for.
"""

import numpy as np
from drawn import drawn

from adaptive_batching import BatchRecord, Dispatch, Hold, Reason, Shed, ShedReason, Situation
from adaptive_batching.core import JobOutcome, Limits, PolicyLike, Scheduler, make_policy
from adaptive_batching.simulation import Drift, Server, poisson, simulate

CHANGE = 6.0  # seconds
PROMISE = 25e-3  # seconds
RATE = 0.52 * 64 / 8.2e-3  # requests a second
SPANS = ((1.0, 6.0), (6.0, 7.0), (7.0, 9.0), (9.0, 14.0))  # seconds
SEEDS = range(3)


class Oracle:
    """Serves at once who can still make it, by the true duration of a batch."""

    def decide(self, situation: Situation) -> Dispatch | Hold | Shed:
        """Shed from the head, then release."""
        limit = situation.limits.max_batch_size
        slower = 2.0 if situation.now >= CHANGE else 1.0
        left, hopeless = situation.items, []
        for job in situation.jobs:
            if situation.now + slower * (5e-3 + 0.05e-3 * min(left, limit)) <= job.deadline:
                break
            hopeless.append(job)
            left -= 1
        if hopeless:
            return Shed(hopeless, ShedReason.HOPELESS)
        return Dispatch(limit, Reason.IDLE)

    def observe(self, batch: BatchRecord) -> None:
        """Learn nothing: it knows."""


def goodput(policy: PolicyLike, jitter: float, seed: int) -> list[float]:
    """Share of the requests of each span that were answered in time."""
    server = Server(5e-3, 0.05e-3, jitter, conditions=(Drift(2.0, CHANGE),))
    scheduler = Scheduler(make_policy(policy), Limits(64, PROMISE), workers=1)
    arrivals = poisson(RATE, SPANS[-1][1], seed=seed)
    history = simulate(arrivals, scheduler, server.service(seed))
    arrived = np.array([job.arrived for job in history.jobs])
    finished = np.array([job.finished for job in history.jobs])
    done = np.array([job.outcome is JobOutcome.DONE for job in history.jobs])
    good = done & (finished <= arrived + PROMISE)
    return [float(good[(arrived >= start) & (arrived < end)].mean()) for start, end in SPANS]


print("jitter goodput |    1-6 s    6-7 s    7-9 s   9-14 s")
for jitter in (0.0, 0.1):
    for policy in drawn(("cork", "nexus", "bentoml", Oracle)):
        name = policy if isinstance(policy, str) else "oracle"
        runs = np.array([goodput(policy, jitter, seed) for seed in SEEDS])
        for label, shares in ((name, runs.mean(axis=0)), ("  worst", runs.min(axis=0))):
            print(f"{jitter:6} {label:7} | " + " ".join(f"{share:8.1%}" for share in shares))
