"""One central queue, or one per replica?

Covers: the mean and 99th percentile of the latency in milliseconds, and the goodput within 15 ms,
of four workers behind one queue, and of four that have a queue each, to which a balancer deals the
requests in turn or at random.

Poisson traffic, batches of 5 ms + 0.05 ms * n with a jitter of 0.1, at most 64 items. What a
replica can't see it can't use: behind a balancer each runs its policy for one worker.

Answer: behind a balancer a request waits for its own replica while another is idle; the central
queue with spaced releases answers a fifth earlier and keeps the promise at any load below capacity.
Greedy, the workers behind the central queue bunch, and half of that advantage is lost.
"""

import numpy as np

from adaptive_batching.core import Limits, Scheduler, make_policy
from adaptive_batching.simulation import History, Row, Server, poisson, simulate, summarize
from adaptive_batching.simulation.arrivals import Times

WORKERS = 4
SERVER = Server(5e-3, 0.05e-3, jitter=0.1)
CAPACITY = WORKERS * 64 / 8.2e-3  # requests a second
PROMISE = 15e-3  # seconds
WARMUP = 0.2  # seconds, to learn from


def central(arrivals: Times, policy: str) -> History:
    """All workers behind one queue."""
    return _run(arrivals, policy, WORKERS, seed=0)


def in_turn(arrivals: Times, policy: str) -> History:
    """A queue each; the balancer deals like cards."""
    return _replicas([arrivals[first::WORKERS] for first in range(WORKERS)], policy)


def at_random(arrivals: Times, policy: str) -> History:
    """A queue each; the balancer draws lots."""
    lots = np.random.default_rng(5).integers(WORKERS, size=len(arrivals))
    return _replicas([arrivals[lots == replica] for replica in range(WORKERS)], policy)


def _replicas(dealt: list[Times], policy: str) -> History:
    parts = [_run(arrivals, policy, 1, seed) for seed, arrivals in enumerate(dealt)]
    jobs = [job for part in parts for job in part.jobs]
    return History(jobs, [batch for part in parts for batch in part.batches])


def _run(arrivals: Times, policy: str, workers: int, seed: int) -> History:
    scheduler = Scheduler(make_policy(policy), Limits(64, PROMISE), workers)
    return simulate(arrivals, scheduler, SERVER.service(seed))


def cell(row: Row) -> str:
    """Mean and 99th percentile in milliseconds, and the goodput."""
    mean, p99 = row.mean_latency or 0.0, row.p99_latency or 0.0
    return f"{mean * 1e3:6.2f} {p99 * 1e3:6.2f} {row.goodput or 0.0:7.2%}"


print("load policy |" + "".join(f"{name:^22} |" for name in ("central", "in turn", "at random")))
for load in (0.1, 0.3, 0.6, 0.9):
    arrivals = poisson(load * CAPACITY, WARMUP + 16_000 / (load * CAPACITY), seed=1)
    for policy in ("greedy", "cork"):
        histories = [ask(arrivals, policy) for ask in (central, in_turn, at_random)]
        rows = [
            summarize(history, policy=policy, workers=WORKERS, max_latency=PROMISE, warmup=WARMUP)
            for history in histories
        ]
        print(f"{load:4.0%} {policy:6} |" + "".join(f" {cell(row)} |" for row in rows))
