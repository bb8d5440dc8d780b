"""Drives the production scheduler through virtual time."""

from adaptive_batching.simulation.arrivals import clumped, mmpp, poisson
from adaptive_batching.simulation.closed_loop import ClosedLoop, Span
from adaptive_batching.simulation.conditions import (
    ColdStart,
    Crashes,
    Drift,
    Failures,
    SharedDevice,
)
from adaptive_batching.simulation.curves import Padded, Table
from adaptive_batching.simulation.engine import drive, simulate
from adaptive_batching.simulation.experiment import Experiment
from adaptive_batching.simulation.feed import Feed
from adaptive_batching.simulation.fleet import Balance, Fleet, drive_fleet
from adaptive_batching.simulation.history import Collector, History
from adaptive_batching.simulation.keys import Lots
from adaptive_batching.simulation.limit import Limit, limit_of
from adaptive_batching.simulation.replications import replicate
from adaptive_batching.simulation.report import Row, summarize, table
from adaptive_batching.simulation.retries import Retries
from adaptive_batching.simulation.servers import Server, UnevenServers
from adaptive_batching.simulation.shaping import scale_rate, speedup, superpose
from adaptive_batching.simulation.tally import Tally
from adaptive_batching.simulation.traces import Request, Trace, read_trace, stream_trace

__all__ = [
    "Balance",
    "ClosedLoop",
    "ColdStart",
    "Collector",
    "Crashes",
    "Drift",
    "Experiment",
    "Failures",
    "Feed",
    "Fleet",
    "History",
    "Limit",
    "Lots",
    "Padded",
    "Request",
    "Retries",
    "Row",
    "Server",
    "SharedDevice",
    "Span",
    "Table",
    "Tally",
    "Trace",
    "UnevenServers",
    "clumped",
    "drive",
    "drive_fleet",
    "limit_of",
    "mmpp",
    "poisson",
    "read_trace",
    "replicate",
    "scale_rate",
    "simulate",
    "speedup",
    "stream_trace",
    "summarize",
    "superpose",
    "table",
]
