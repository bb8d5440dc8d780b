"""What a running service or sidecar does, in a terminal."""

from adaptive_batching.top.client import NotWatchable, follow, snapshot
from adaptive_batching.top.state import LastMinute

__all__ = ["LastMinute", "NotWatchable", "follow", "snapshot"]
