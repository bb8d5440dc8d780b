"""One central queue, one per replica, or several dispatchers in front of the same workers?

Covers: the mean and 99th percentile of the latency in milliseconds, and the goodput within 15 ms,
of four workers behind one queue; of four that have a queue each, to which a balancer deals the
requests in turn, at random, or to who has the fewest under way; and of four dispatchers that all
send to the same four workers, which take batches as they come.

Poisson traffic, batches of 5 ms + 0.05 ms * n with a jitter of 0.1, at most 64 items. What a
replica can't see it can't use: behind a balancer each runs its policy for one worker. Dispatchers
that share workers each believe to have all four.

Answer: behind a balancer a request waits for its own replica while another is idle; the central
queue with spaced releases answers a fifth earlier and keeps the promise at any load below capacity.
Greedy, the workers behind the central queue bunch, and half of that advantage is lost. Dealing in
turn is a little better than at random. Giving each request to who has the fewest under way is worse
than both: whoever has just answered a batch gets all that comes until he has as many as the others,
and all of that waits for one worker; `cork` waits for this clump, and takes a tenth off the mean
below 90 %. Several dispatchers in front of the same workers miss the promise at any load: each lets
four batches go, so that sixteen are under way for four workers, and what waits there can't be
joined any more. One dispatcher for a pool, or a pool for each dispatcher.
"""

from itertools import product

from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Fleet, Row, Server, poisson

WORKERS = 4
SERVER = Server(5e-3, 0.05e-3, jitter=0.1)
CAPACITY = WORKERS * 64 / 8.2e-3  # requests a second
PROMISE = 15e-3  # seconds
WARMUP = 0.2  # seconds, to learn from
FLEETS = {
    "central": Fleet(),
    "in turn": Fleet(4, "in-turn"),
    "at random": Fleet(4, "random"),
    "fewest": Fleet(4, "least"),
    "shared workers": Fleet(4, "in-turn", shared=True),
}


def measure(fleet: Fleet, load: float, policy: str) -> Row:
    """So much of the capacity."""
    rate = load * CAPACITY
    arrivals = poisson(rate, WARMUP + 16_000 / rate, seed=1)
    limits = Limits(64, PROMISE)
    experiment = Experiment(arrivals, SERVER, limits, fleet=fleet, warmup=WARMUP)
    return experiment.run(policy, WORKERS)


def cell(row: Row) -> str:
    """Mean and 99th percentile in milliseconds, and the goodput."""
    mean, p99 = row.mean_latency or 0.0, row.p99_latency or 0.0
    return f"{mean * 1e3:6.2f} {p99 * 1e3:6.2f} {row.goodput or 0.0:7.2%}"


print("load policy |" + "".join(f"{name:^22} |" for name in FLEETS))
for load, policy in drawn(product((0.1, 0.3, 0.6, 0.9), ("greedy", "cork"))):
    rows = [measure(fleet, load, policy) for fleet in FLEETS.values()]
    print(f"{load:4.0%} {policy:6} |" + "".join(f" {cell(row)} |" for row in rows))
