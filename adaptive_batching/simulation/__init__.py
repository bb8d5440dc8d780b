"""Drives the production scheduler through virtual time."""

from adaptive_batching.simulation.arrivals import clumped, mmpp, poisson
from adaptive_batching.simulation.engine import History, simulate
from adaptive_batching.simulation.experiment import Experiment
from adaptive_batching.simulation.limit import Limit, limit_of
from adaptive_batching.simulation.report import Row, summarize, table
from adaptive_batching.simulation.servers import Server
from adaptive_batching.simulation.traces import Trace, read_trace, speedup

__all__ = [
    "Experiment",
    "History",
    "Limit",
    "Row",
    "Server",
    "Trace",
    "clumped",
    "limit_of",
    "mmpp",
    "poisson",
    "read_trace",
    "simulate",
    "speedup",
    "summarize",
    "table",
]
