"""What stands before a model, under real traffic: every server and generator is a process."""

from adaptive_batching.bench.sidecar import digits, overload, slow_clients, tensors, throughput

PARTS = {
    "throughput": throughput.measure,
    "tensors": tensors.measure,
    "overload": overload.measure,
    "slow-clients": slow_clients.measure,
    "digits": digits.measure,
}
