"""What if callers send again when they are answered?

Covers: answers per second and mean latency in milliseconds of `cork` and `greedy`. Greedy falls
into two groups that take turns; who waits for the clump after an answer serves all of them at once.

Turnaround uniform from 0.3 to 2.3 ms; batches of at most 64 items. One worker of
5 ms + 0.05 ms * n, then two of 143 ms + 0.245 ms * n, each idle only while its callers return.
The last table has answers in time a second, the least and the most of four seeds, of 32 users who
think for 2 to 10 ms and one worker of 40 ms + 0.1 ms * n: two groups would be late behind each
other, or hardly in time.
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


def in_time(policy: str, max_latency: float) -> str:
    """Answers in time a second, once all is learned."""
    found = []
    for seed in range(4):
        loop = ClosedLoop(32, SECONDS, Span(2e-3, 10e-3), Span(0.3e-3, 2.3e-3), seed=seed)
        limits = Limits(max_batch_size=32, max_latency=max_latency)
        experiment = Experiment(loop, Server(40e-3, 0.1e-3), limits, warmup=0.4 * SECONDS)
        found.append(experiment.run(policy).on_time / (0.6 * SECONDS))
    return f"{min(found):4,.0f}-{max(found):3,.0f}"


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
print(" within |   greedy window:10ms     cork")
for max_latency in drawn((65e-3, 85e-3)):
    policies = ("greedy", "window:10ms", "cork")
    greedy, window, cork = (in_time(policy, max_latency) for policy in policies)
    print(f"{max_latency * 1e3:4.0f} ms | {greedy:>8} {window:>11} {cork:>8}")
