"""A service under load over real HTTP: every server and every generator is a process of its own."""

from adaptive_batching.bench.http import latency, recovery, throughput

PARTS = {
    "throughput": throughput.measure,
    "latency": latency.measure,
    "recovery": recovery.measure,
}
