"""All endpoints of a program, looked at once a second for all viewers."""

from adaptive_batching.instrumentation.live.messages import View
from adaptive_batching.instrumentation.live.watch import Watch, Watched

_RAN = 256  # batches that a message holds, of all endpoints together: some 15 KB


class LiveView:
    """The last two minutes of some dispatchers, in bounded memory.

    Attributes:
        watched: What is looked at.
    """

    def __init__(self) -> None:
        self.watched: dict[str, Watched] = {}
        self._watches: dict[Watched, Watch] = {}
        self._now = 0.0

    def watch(self, watched: Watched) -> None:
        """Look at it from now on; at whatever has its label no more."""
        self.watched[watched.label] = watched

    def forget(self, label: str) -> None:
        """Look at it no more."""
        self.watched.pop(label, None)

    def look(self, now: float) -> View:
        """Look at all, and return what has changed since the last time.

        Args:
            now: The present (seconds), on the clock of the dispatchers.
        """
        known, self._watches = self._watches, {}
        for each in self.watched.values():
            self._watches[each] = known.get(each) or Watch(each, now)
        self._now = now
        most = self._share
        return View(now, [watch.look(now, most) for watch in self._watches.values()])

    def whole(self) -> View:
        """All that is kept, as it was at the last look."""
        most = self._share
        return View(self._now, [watch.whole(most) for watch in self._watches.values()])

    @property
    def _share(self) -> int:
        return _RAN // max(1, len(self._watches))
