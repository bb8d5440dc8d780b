"""What does the flood of one tenant do to the others, and what a high priority to the rest?

Covers: the 99th percentile of the others' latency and how many of them are answered in time,
without the flood, with it where the first come are the first served, and with it where tenants
share the workers; then that of requests of high priority and of normal ones, by load and ageing.

Batches of 5 ms + 0.05 ms * n with a jitter of 0.1, at most 64 items. Four tenants send a fifth of
what the workers can do, all together. The flood is a fifth tenant with three times what they can
do, whose requests may share batches with the others' or not (keys: same, own). 1024 items may wait,
as in a sidecar. Priorities: one tenant, one worker, no promise, a queue without end. Each cell is a
second of traffic after half a second that is not counted.

Answer: who comes behind a flood is in the next batch. So the others' 99th percentile stays within
twice what it is without the flood, all of them are answered, and no policy or promise has a say in
it; what is left of a difference is that batches are full, where theirs alone were short. Where the
first come are the first served they wait behind the whole queue, or are turned away with the flood.
A high priority helps as long as there is a queue to be ahead in. What it costs the normal ones is
bounded: even in an overload they wait the ageing longer than the others, and no more.
"""

from math import inf
from typing import NamedTuple

import numpy as np
from drawn import drawn

from adaptive_batching.core import (
    Fairness,
    JobOutcome,
    JobRecord,
    Limits,
    Priority,
    Scheduler,
    make_policy,
)
from adaptive_batching.simulation import Server, poisson, simulate
from adaptive_batching.simulation.clients.tenants import Claim

SERVER = Server(5e-3, 0.05e-3, jitter=0.1)
CAPACITY = 64 / 8.2e-3  # requests a second and worker
OTHERS, FLOOD = 0.2, 3.0  # of capacity
SECONDS, WARMUP = 1.5, 0.5
TENANTS = 4


class Stream(NamedTuple):
    """Poisson traffic of one kind: who sends it, how much a second, and under which batch key."""

    claim: Claim
    rate: float
    key: str = "same"


class Served(NamedTuple):
    """By which policy, within which promise, by how many workers."""

    policy: str
    promise: float = inf
    workers: int = 1
    max_queue: int = 1024

    def __str__(self) -> str:
        promise = "none" if self.promise == inf else f"{self.promise * 1e3:.0f} ms"
        return f"{self.policy:7} {promise:>7} {self.workers:7}"


def fared(streams: list[Stream], how: Served, fairness: Fairness | None) -> list[list[JobRecord]]:
    """What becomes of each stream's requests that come after the warm-up."""
    come = sorted(
        (time, number)
        for number, stream in enumerate(streams)
        if stream.rate
        for time in poisson(stream.rate, SECONDS, seed=number + 1).tolist()
    )
    history = simulate(
        [time for time, _ in come],
        Scheduler(
            make_policy(how.policy),
            Limits(64, how.promise, how.max_queue),
            how.workers,
            fairness=fairness,
        ),
        SERVER.service(1),
        keys=[streams[number].key for _, number in come],
        claims=[streams[number].claim for _, number in come],
    )
    whose = dict(come)  # no two come at the same instant
    ended: list[list[JobRecord]] = [[] for _ in streams]
    for job in history.jobs:
        if job.arrived >= WARMUP:
            ended[whose[job.arrived]].append(job)
    return ended


def p99(jobs: list[JobRecord]) -> float:
    """Of those that were answered (milliseconds)."""
    latencies = [job.latency for job in jobs if job.outcome is JobOutcome.DONE]
    return float(np.percentile(latencies, 99)) * 1e3


def others(flood: float, keys: str, how: Served, fairness: Fairness | None) -> list[JobRecord]:
    """How the quiet tenants fare beside a flood."""
    rate = how.workers * CAPACITY
    quiet = [Stream(Claim(f"quiet {n}"), OTHERS * rate / TENANTS) for n in range(TENANTS)]
    *theirs, _ = fared([*quiet, Stream(Claim("flood"), flood * rate, keys)], how, fairness)
    return [job for jobs in theirs for job in jobs]


def shown(jobs: list[JobRecord]) -> str:
    """The 99th percentile, and who was answered in time."""
    return f"{p99(jobs):6.1f} ms {sum(job.in_time for job in jobs) / len(jobs):6.1%}"


print("The others, beside the flood of one")
print("policy  promise workers keys |     no flood     |   first served   |       fair       times")
for policy, promise in (("greedy", inf), ("cork", inf), ("cork", 100e-3)):
    for workers in drawn((1, 2)):
        how = Served(policy, promise, workers)
        quiet = others(0.0, "same", how, None)
        for keys in drawn(("same", "own")):
            first, fair = (others(FLOOD, keys, how, each) for each in (None, Fairness()))
            cells = f"{shown(quiet)} | {shown(first)} | {shown(fair)}"
            print(f"{how} {keys:4} | {cells} {p99(fair) / p99(quiet):6.2f}")

print()
print("99th percentiles (ms) of requests of high priority, and of normal ones")
print("load of each |  first served |  ageing 50 ms | ageing 500 ms")
ONE = Served("cork", max_queue=10**6)
for high, normal in drawn(((0.3, 0.3), (0.6, 0.3), (0.8, 0.4), (1.2, 0.3))):
    both = [
        Stream(Claim(None, Priority.HIGH), high * CAPACITY),
        Stream(Claim(None), normal * CAPACITY),
    ]
    cells = [
        "".join(f"{p99(each):7.1f}" for each in fared(both, ONE, fairness))
        for fairness in (None, Fairness(ageing=50e-3), Fairness(ageing=500e-3))
    ]
    print(f"{high:6.0%} {normal:5.0%} | {' | '.join(cells)}")
