"""What if clients who are refused, or answered too late, send again?

Covers: share of the requests that were answered in time in the end, and how often each was sent, in
an overload of 60 ms and the fifth of a second after it; for clients who never send
again, who do so at once, after the refusal's `retry_after`, or after 50 ms and twice as long each
time; three times at the most. An attempt is in time by its own deadline.

One worker, batches of 5 ms + 0.05 ms * n, at most 64 items, within 25 ms; Poisson traffic at half
the capacity before and after.

Answer: `greedy` answers nearly everybody too late, and is buried by the retries of those whom it
has kept waiting: less of the goodput is left, not more. Who sheds by a prediction never loses by
retries. Clients who are refused in their very instant and retry in it have used up their tries at
once, and all who come when told meet at the door: only a backoff spreads them over the time after
the overload, and with it most are served in the end. Where an overload is short, `nexus` has the
effect of a backoff: it refuses none on arrival, so that each attempt takes all of its time.
"""

import numpy as np
from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Retries, Server, poisson

CAPACITY = 64 / 8.2e-3  # requests a second
POLICIES = ("cork", "greedy", "nexus", "bentoml")
CLIENTS = {
    "never": None,
    "at once": Retries(3, 0.0),
    "when told": Retries(3),
    "backoff": Retries(3, 50e-3),
}


def cell(load: float, policy: str, retries: Retries | None) -> str:
    """Goodput, and attempts for each request."""
    calm = poisson(0.5 * CAPACITY, 0.4, seed=1)
    storm = 0.4 + poisson(load * CAPACITY, 0.06, seed=2)
    after = 0.46 + poisson(0.5 * CAPACITY, 0.2, seed=3)
    arrivals = np.concatenate([calm, storm, after])
    server, limits = Server(5e-3, 0.05e-3), Limits(64, 25e-3)
    row = Experiment(arrivals, server, limits, retries=retries, warmup=0.4).run(policy)
    return f"{row.goodput or 0.0:7.1%} {1 + row.sent_again / row.requests:4.1f}"


print("load             | " + " | ".join(f"{name:>12}" for name in CLIENTS))
for load in (0.5, 1.2, 2.0, 5.0, 10.0):
    for policy in drawn(POLICIES):
        row = " | ".join(cell(load, policy, retries) for retries in CLIENTS.values())
        print(f"{load:4.1f} {policy:11} | {row}")
