"""Drives the production scheduler through virtual time."""

from adaptive_batching.simulation.bounds.limit import Limit, limit_of
from adaptive_batching.simulation.clients.closed_loop import ClosedLoop, Span
from adaptive_batching.simulation.clients.keys import Lots
from adaptive_batching.simulation.clients.retries import Retries
from adaptive_batching.simulation.kernel.engine import drive, simulate
from adaptive_batching.simulation.kernel.fleet import Balance, Fleet
from adaptive_batching.simulation.kernel.history import Collector, History
from adaptive_batching.simulation.servers.conditions import (
    ColdStart,
    Crashes,
    Drift,
    Failures,
    KeyCosts,
    Pauses,
    SharedDevice,
)
from adaptive_batching.simulation.servers.costs import CostSeconds
from adaptive_batching.simulation.servers.curves import Padded, Table
from adaptive_batching.simulation.servers.servers import Server, UnevenServers
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.replications import replicate
from adaptive_batching.simulation.study.report import Row, summarize, table
from adaptive_batching.simulation.study.tally import Tally
from adaptive_batching.simulation.traffic.arrival_stream import ArrivalStream
from adaptive_batching.simulation.traffic.arrivals import clumped, mmpp, poisson
from adaptive_batching.simulation.traffic.costs import Bimodal, DrawnCosts, Lognormal
from adaptive_batching.simulation.traffic.shaping import scale_rate, speedup, superpose
from adaptive_batching.simulation.traffic.traces import Request, Trace, read_trace, stream_trace

__all__ = [
    "ArrivalStream",
    "Balance",
    "Bimodal",
    "ClosedLoop",
    "ColdStart",
    "Collector",
    "CostSeconds",
    "Crashes",
    "DrawnCosts",
    "Drift",
    "Experiment",
    "Failures",
    "Fleet",
    "History",
    "KeyCosts",
    "Limit",
    "Lognormal",
    "Lots",
    "Padded",
    "Pauses",
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
