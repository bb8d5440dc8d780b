"""What if one worker of four is slower than the others?

Covers: `greedy`, `cork` that takes all workers for alike (`blind`), and `cork`: mean and 99th
percentile of the latency in milliseconds, the share of the requests answered within 25 ms, and the
share of the items that the slow worker did. Then a worker that takes four times as long from 3 s to
6 s: what it did of the items, second by second.

Batches of 5 ms + 0.05 ms * n on a fast worker, a jitter of 0.1, at most 64 items; Poisson traffic
at a share of the capacity of all four together.

Answer: a slow worker that is asked whenever it is idle answers late, and its batch is what the 99th
percentile shows. A slow worker is worth its use where the fast ones alone would be overloaded, and
where its batch ends before a fast one could have done it. The price: in overload, one whose full
batch would break the promise stands idle; in small batches it would answer a point more.
"""

from dataclasses import replace
from math import inf

from drawn import drawn

from adaptive_batching.core import Limits, Scheduler, make_policy
from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.estimators.pace import KeyPace
from adaptive_batching.core.permits import Permits
from adaptive_batching.simulation import (
    Drift,
    History,
    Server,
    UnevenServers,
    poisson,
    simulate,
    summarize,
)

CAPACITY = 64 / 8.2e-3  # items per second and fast worker
PROMISE = 25e-3
POLICIES = ("greedy", "cork blind", "cork")


def server(slowness: float = 1.0) -> Server:
    """A worker that takes so many times as long as a fast one."""
    return Server(slowness * 5e-3, slowness * 0.05e-3, jitter=0.1)


class Blind(Permits):
    """Learns one line from all batches, and nothing of who ran them."""

    def learn(
        self,
        index: int,
        size: int,
        duration: float,
        line: LinearLatency | None = None,
        pace: KeyPace | None = None,
        cost: float = 0.0,
    ) -> None:
        """As if there were one worker."""
        (line or self.latency).observe(size, duration, cost)


def play(policy: str, servers: UnevenServers, rate: float, seconds: float) -> History:
    """Poisson traffic on four workers; a policy may be `blind`."""
    name = policy.removesuffix(" blind")
    permits = (Permits if name == policy else Blind)(len(servers.each))
    scheduler = Scheduler(make_policy(name), Limits(64, PROMISE), permits)
    return simulate(poisson(rate, seconds, seed=1), scheduler, servers.service(1))


def share(history: History, worker: int, begin: float = 0.0, end: float = inf) -> float:
    """Of the items that left between two instants (seconds), those that the worker did."""
    batches = [batch for batch in history.batches if begin <= batch.released < end]
    mine = sum(batch.size for batch in batches if batch.worker == worker)
    return mine / sum(batch.size for batch in batches)


print("slow  load  | " + " | ".join(f"{name:10}  mean   p99 in time  slow" for name in POLICIES))
for slowness in (2.0, 4.0):
    servers = UnevenServers((server(), server(), server(), server(slowness)))
    for load in drawn((0.3, 0.6, 0.9, 1.2)):
        rate = load * (3 + 1 / slowness) * CAPACITY
        cells = []
        for policy in POLICIES:
            history = play(policy, servers, rate, 1.6)
            row = summarize(history, policy=policy, workers=4, warmup=0.4)
            assert row.mean_latency is not None
            assert row.p99_latency is not None
            mean, p99 = row.mean_latency * 1e3, row.p99_latency * 1e3
            cells.append(f"{mean:16.2f} {p99:5.1f} {row.goodput:7.1%} {share(history, 3):5.1%}")
        print(f"{slowness:3.0f}x {load:5.0%}  | " + " | ".join(cells))

weary = server()
weary = replace(weary, conditions=(Drift(4.0, 3.0), Drift(0.25, 6.0)))
servers = UnevenServers((server(), server(), server(), weary))
history = play("cork", servers, 0.5 * 4 * CAPACITY, 9.0)
print("\nfour times as slow from 3 s to 6 s, at 50 %: its share of the items in each second")
print(" ".join(f"{share(history, 3, second, second + 1.0):5.1%}" for second in range(9)))
