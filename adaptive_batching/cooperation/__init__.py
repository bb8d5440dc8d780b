"""Batching for plain threads: no worker thread, no event loop, the first to come leads."""

from adaptive_batching.cooperation.cooperative import Cooperative, cooperative
from adaptive_batching.cooperation.handle import Handle
from adaptive_batching.cooperation.lock import ExecutionLock

__all__ = ["Cooperative", "ExecutionLock", "Handle", "cooperative"]
