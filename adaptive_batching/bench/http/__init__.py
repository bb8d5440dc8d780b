"""A service under load over real HTTP: every server and every generator is a process of its own."""

from adaptive_batching.bench.http import (
    closed_loop,
    dashboard,
    latency,
    mosec,
    observability,
    throughput,
)

PARTS = {
    "throughput": throughput.measure,
    "latency": latency.measure,
    "closed-loop": closed_loop.measure,
    "mosec": mosec.measure,
    "dashboard": dashboard.measure,
    "observability": observability.measure,
}
