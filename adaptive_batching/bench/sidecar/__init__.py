"""What stands before a model, under real traffic: every server and generator is a process."""

from adaptive_batching.bench.sidecar import overload, throughput

PARTS = {
    "throughput": throughput.measure,
    "overload": overload.measure,
}
