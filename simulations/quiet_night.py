"""What happens to CORK after a quiet night?

Covers: the goodput, in windows of two seconds, of the first traffic after a quiet spell; as BentoML
ships it (`bentoml`, polled each millisecond), the same rule looked at on every event (`bentoml:0`),
and `cork`.

One worker, batches of 5 ms + 0.05 ms * n with a jitter of 0.05, at most 64 items, within 25 ms.
A night of 20 requests a second, nearly all of them alone in their batch; then 70 % of the capacity.

Answer: batches of one say nothing about the slope, and least squares halves their duration between
slope and intercept: a batch of 64 looks twenty times as long as it is, and up to three quarters of
the morning's requests are refused on an idle worker until the next fit, as long as 5 s. To look on
every event doesn't help. `cork` keeps its prior until two sizes were seen and refuses nobody.
"""

import numpy as np
from drawn import drawn

from adaptive_batching.core import JobOutcome, Limits, Scheduler, make_policy
from adaptive_batching.simulation import Server, poisson, simulate

SERVER = Server(5e-3, 0.05e-3, jitter=0.05)
CAPACITY = 64 / 8.2e-3  # requests a second
PROMISE = 25e-3  # seconds
NIGHTS = (20.0, 21.5, 23.0)  # seconds: BentoML fits every 5 s, morning comes whenever it likes
WINDOW = 2.0  # seconds
WINDOWS = 3


def goodput(policy: str, night: float, seed: int) -> list[float]:
    """Share of the requests of each window of the morning that were answered in time."""
    quiet = poisson(20.0, night, seed=seed)
    morning = night + poisson(0.7 * CAPACITY, WINDOW * WINDOWS, seed=seed + 100)
    scheduler = Scheduler(make_policy(policy), Limits(64, PROMISE), workers=1)
    history = simulate(np.concatenate([quiet, morning]), scheduler, SERVER.service(seed))
    good, sent = [0] * WINDOWS, [0] * WINDOWS
    for job in history.jobs:
        if job.arrived >= night:
            window = int((job.arrived - night) / WINDOW)
            sent[window] += 1
            on_time = job.finished <= job.arrived + PROMISE
            good[window] += on_time and job.outcome is JobOutcome.DONE
    return [part / whole for part, whole in zip(good, sent, strict=True)]


print("goodput          |   0-2 s   2-4 s   4-6 s")
for policy in drawn(("bentoml", "bentoml:0", "cork")):
    runs = np.array([goodput(policy, night, seed) for seed, night in enumerate(NIGHTS)])
    for name, shares in ((policy, runs.mean(axis=0)), ("  worst morning", runs.min(axis=0))):
        print(f"{name:16} | " + " ".join(f"{share:7.1%}" for share in shares))
