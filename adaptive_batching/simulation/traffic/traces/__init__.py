"""Recorded traffic: one file a format, told from one another by their first lines."""

from adaptive_batching.simulation.traffic.shaping import speedup
from adaptive_batching.simulation.traffic.traces.format import Measure, Request
from adaptive_batching.simulation.traffic.traces.reader import (
    FORMATS,
    Trace,
    is_recording,
    read_trace,
    stream_trace,
)

__all__ = [
    "FORMATS",
    "Measure",
    "Request",
    "Trace",
    "is_recording",
    "read_trace",
    "speedup",
    "stream_trace",
]
