"""How long does a batch key that can wait, wait behind one that can't?

Covers: the mean latency and the 99th percentile (ms) of both keys, by policy, workers, load and the
promise of the one that can wait.

Batches of 5 ms + 0.05 ms * n with a jitter of 0.1, at most 64 items. Of the hasty key all that the
load says comes, within 100 ms; of the patient one a tenth of that, within a second or without a
deadline. 20 seconds of traffic, of which the first two are not counted.

Answer: as long as the other. A worker that is let idle by no policy has batches of one and two of
the hasty key to run at any load, and by deadline alone the patient key comes after all of them:
7.8 s on average at a third of the capacity, with one worker and no deadline, and 751 ms within a
second. So no request is put off for longer than four times what all that waits takes.
"""

from math import inf, nan
from statistics import fmean, quantiles

import numpy as np
from drawn import drawn

from adaptive_batching.core import Limits, Scheduler, make_policy
from adaptive_batching.simulation import Server, poisson, simulate

SERVER = Server(5e-3, 0.05e-3, jitter=0.1)
CAPACITY = 64 / 8.2e-3  # requests a second and worker
SECONDS, WARMUP = 6.0, 1.0
HASTY = 100e-3  # seconds


def latencies(policy: str, workers: int, load: float, promise: float) -> list[list[float]]:
    """Of the answers in each key (seconds), the hasty one first."""
    rate = load * workers * CAPACITY
    streams = [poisson(rate, SECONDS, seed=1), poisson(rate / 10, SECONDS, seed=2)]
    times = np.concatenate(streams)
    patient = np.repeat([False, True], [len(stream) for stream in streams])
    order = np.argsort(times, kind="stable")
    scheduler = Scheduler(make_policy(policy), Limits(64), workers)
    history = simulate(
        times[order],
        scheduler,
        SERVER.service(),
        keys=patient[order].tolist(),
        max_latencies=np.where(patient[order], nan if promise == inf else promise, HASTY),
    )
    answered = [job for job in history.jobs if job.arrived > WARMUP and job.in_time]
    return [[job.latency for job in answered if job.key is key] for key in (False, True)]


def shown(seconds: list[float]) -> str:
    """Mean and 99th percentile."""
    return f"{fmean(seconds) * 1e3:9.1f} {quantiles(seconds, n=100)[98] * 1e3:7.1f}"


print("policy workers load promise |   hasty: mean p99 | patient: mean p99")
for policy in ("greedy", "cork"):
    for workers in (1, 2):
        for load in (0.1, 0.3, 0.9):
            for promise in drawn((1.0, inf)):
                cells = " | ".join(map(shown, latencies(policy, workers, load, promise)))
                named = "none" if promise == inf else f"{promise:g} s"
                print(f"{policy:6} {workers:7} {load:4.0%} {named:>7} | {cells}")
