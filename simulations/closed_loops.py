"""What if callers send again when they are answered?

Covers: answers per second and mean latency in milliseconds of `cork` and `greedy`. Greedy falls
into two groups that take turns; who waits for the clump after an answer serves all of them at once.

Turnaround uniform from 0.3 to 2.3 ms; batches of at most 64 items. One worker of
5 ms + 0.05 ms * n, then two of 143 ms + 0.245 ms * n, each idle only while its callers return.
"""

from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import ClosedLoop, Experiment, Row, Server, Span

SECONDS = 10.0


def measure(policy: str, users: int, think: float, workers: int = 1) -> Row:
    """So many users who think for so long (seconds)."""
    loop = ClosedLoop(users, workers * SECONDS, Span(think, think), Span(0.3e-3, 2.3e-3), seed=1)
    server = Server(5e-3, 0.05e-3) if workers == 1 else Server(143e-3, 0.245e-3)
    return Experiment(loop, server, Limits(max_batch_size=64)).run(policy, workers)


def numbers(row: Row) -> str:
    """Answers per second, mean and 99th percentile."""
    assert row.throughput is not None
    assert row.mean_latency is not None
    assert row.p99_latency is not None
    return f"{row.throughput:6,.0f} {row.mean_latency * 1e3:6.2f} {row.p99_latency * 1e3:6.2f}"


print("users think | greedy: /s   mean    p99 | cork: /s   mean    p99")
for users, think in drawn(((64, 0.0), (64, 5e-3), (64, 20e-3), (16, 0.0), (200, 0.0))):
    greedy, cork = (numbers(measure(policy, users, think)) for policy in ("greedy", "cork"))
    print(f"{users:5} {think * 1e3:2.0f} ms |      {greedy} |   {cork}")
print("two workers")
for users in drawn((13, 64, 100)):
    greedy, cork = (numbers(measure(policy, users, 0.0, 2)) for policy in ("greedy", "cork"))
    print(f"{users:5}  0 ms |      {greedy} |   {cork}")
