"""Load generators, each in a process of its own: what the demo and the benchmarks send."""

from adaptive_batching.load.plans import Answer, ClosedLoop, End, OpenLoop, Throughput
from adaptive_batching.load.processes import run_closed_loop, run_open_loop

__all__ = [
    "Answer",
    "ClosedLoop",
    "End",
    "OpenLoop",
    "Throughput",
    "run_closed_loop",
    "run_open_loop",
]
