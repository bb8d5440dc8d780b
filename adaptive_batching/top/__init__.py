"""What a running service or sidecar does, in a terminal."""

from adaptive_batching.top.client import NotWatchable, follow, snapshot
from adaptive_batching.top.state import State

__all__ = ["NotWatchable", "State", "follow", "snapshot"]
