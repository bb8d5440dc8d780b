"""Drives the scheduler on an asyncio loop: one item in, its own result out."""

from adaptive_batching.dispatcher.bounded_map import run_in_lanes
from adaptive_batching.dispatcher.calls import request_name
from adaptive_batching.dispatcher.dispatcher import Dispatcher
from adaptive_batching.dispatcher.observers import NO_OBSERVERS, JobObserver, Observer
from adaptive_batching.dispatcher.share import Forming, Share, of_class
from adaptive_batching.dispatcher.stats import Stats, WorkerStats
from adaptive_batching.dispatcher.threads import call_from_thread

__all__ = [
    "NO_OBSERVERS",
    "Dispatcher",
    "Forming",
    "JobObserver",
    "Observer",
    "Share",
    "Stats",
    "WorkerStats",
    "call_from_thread",
    "of_class",
    "request_name",
    "run_in_lanes",
]
