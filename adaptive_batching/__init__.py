"""Turns single requests into batches for models, and learns by itself how long to wait."""

from typing import TYPE_CHECKING, Any

from adaptive_batching.batched_function import Batched
from adaptive_batching.batching import batched
from adaptive_batching.cooperation import Cooperative, ExecutionLock, Handle, cooperative
from adaptive_batching.core import (
    BatchRecord,
    Dispatch,
    Hold,
    Policy,
    QueueView,
    Reason,
    Shed,
    ShedReason,
)
from adaptive_batching.dispatcher import Stats
from adaptive_batching.errors import (
    BatchFunctionError,
    BatchingError,
    DeadlineExceeded,
    Overloaded,
    QueueFull,
    Refused,
    WorkerError,
)
from adaptive_batching.instrumentation.recording import Recorder
from adaptive_batching.marshal.service.shared_workers import SharedWorkers
from adaptive_batching.payloads.marks import DType, Shape
from adaptive_batching.pipeline import Pipeline, PipelineStats, Stage
from adaptive_batching.workers.placement import External, Processes, RayWorkers, Tasks, Threads

if TYPE_CHECKING:
    from adaptive_batching.marshal.service.service import Service

__all__ = [
    "BatchFunctionError",
    "BatchRecord",
    "Batched",
    "BatchingError",
    "Cooperative",
    "DType",
    "DeadlineExceeded",
    "Dispatch",
    "ExecutionLock",
    "External",
    "Handle",
    "Hold",
    "Overloaded",
    "Pipeline",
    "PipelineStats",
    "Policy",
    "Processes",
    "QueueFull",
    "QueueView",
    "RayWorkers",
    "Reason",
    "Recorder",
    "Refused",
    "Service",
    "Shape",
    "SharedWorkers",
    "Shed",
    "ShedReason",
    "Stage",
    "Stats",
    "Tasks",
    "Threads",
    "WorkerError",
    "batched",
    "cooperative",
]


def __getattr__(name: str) -> Any:
    """Import the HTTP service when it is asked for: aiohttp doubles the time of an import."""
    if name == "Service":
        from adaptive_batching.marshal.service.service import Service  # noqa: PLC0415

        return Service
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
