"""Turns single requests into batches for models, and learns by itself how long to wait."""

from importlib import import_module

# Type checkers take a variable of this name for true. To import `typing` for it would take 13 ms of
# each program's start, before the command line can make Ctrl-C a quiet end.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from adaptive_batching.batched_function import Batched
    from adaptive_batching.batching import batched
    from adaptive_batching.cooperation import Cooperative, ExecutionLock, Handle, cooperative
    from adaptive_batching.core import (
        BatchRecord,
        Dispatch,
        Hold,
        JobOutcome,
        Policy,
        Reason,
        Shed,
        ShedReason,
        Situation,
        Verdict,
        Welcome,
    )
    from adaptive_batching.dispatcher.stats import Stats, WorkerStats
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
    from adaptive_batching.marshal.service.service import Service
    from adaptive_batching.marshal.service.shared_workers import SharedWorkers
    from adaptive_batching.payloads.arrays.marks import DType, Padded, Shape
    from adaptive_batching.pipeline import Pipeline, PipelineStats, Stage
    from adaptive_batching.workers.elsewhere import ExternalWorkers, Processes, RayWorkers
    from adaptive_batching.workers.placement import Tasks, Threads
    from adaptive_batching.workers.worker_index import worker_index

# Each name is imported when it is asked for. All programs import this package, worker processes
# and `adaptive-batching top` among them, and most of them need little of it.
_MODULES = {
    "BatchFunctionError": "errors",
    "BatchRecord": "core",
    "Batched": "batched_function",
    "BatchingError": "errors",
    "Cooperative": "cooperation",
    "DType": "payloads.arrays.marks",
    "DeadlineExceeded": "errors",
    "Dispatch": "core",
    "ExecutionLock": "cooperation",
    "ExternalWorkers": "workers.elsewhere",
    "Handle": "cooperation",
    "Hold": "core",
    "JobOutcome": "core",
    "Overloaded": "errors",
    "Padded": "payloads.arrays.marks",
    "Pipeline": "pipeline",
    "PipelineStats": "pipeline",
    "Policy": "core",
    "Processes": "workers.elsewhere",
    "QueueFull": "errors",
    "RayWorkers": "workers.elsewhere",
    "Reason": "core",
    "Recorder": "instrumentation.recording",
    "Refused": "errors",
    "Service": "marshal.service.service",
    "Shape": "payloads.arrays.marks",
    "SharedWorkers": "marshal.service.shared_workers",
    "Shed": "core",
    "ShedReason": "core",
    "Situation": "core",
    "Stage": "pipeline",
    "Stats": "dispatcher.stats",
    "Tasks": "workers.placement",
    "Threads": "workers.placement",
    "Verdict": "core",
    "Welcome": "core",
    "WorkerError": "errors",
    "WorkerStats": "dispatcher.stats",
    "batched": "batching",
    "cooperative": "cooperation",
    "worker_index": "workers.worker_index",
}

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
    "ExternalWorkers",
    "Handle",
    "Hold",
    "JobOutcome",
    "Overloaded",
    "Padded",
    "Pipeline",
    "PipelineStats",
    "Policy",
    "Processes",
    "QueueFull",
    "RayWorkers",
    "Reason",
    "Recorder",
    "Refused",
    "Service",
    "Shape",
    "SharedWorkers",
    "Shed",
    "ShedReason",
    "Situation",
    "Stage",
    "Stats",
    "Tasks",
    "Threads",
    "Verdict",
    "Welcome",
    "WorkerError",
    "WorkerStats",
    "batched",
    "cooperative",
    "worker_index",
]


def __getattr__(name: str) -> "Any":
    """Import a public name, and keep it."""
    module = _MODULES.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
