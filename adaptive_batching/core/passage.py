"""How long requests and answers are under way in a process, apart from their batch."""

from math import inf

_SHARE = 1 / 16  # of a newcomer in the mean
_CERTAINTY = 4.0  # mean deviations; as TCP allows for late answers (Jacobson 1988)
_MOST = (
    0.25  # of what a client waits: after a pause of the process nobody is refused for that alone
)


class Passage:
    """Mean and mean deviation of the time from a request's bytes to its turn.

    An event loop with much to do gets round to a request late, and just as late to its answer. Who
    is let in needs time for both, or he is served in vain: in overload nearly all who are let in
    are to be answered at the last moment.
    """

    __slots__ = ("_deviation", "_last", "_mean", "_noticed")

    def __init__(self) -> None:
        self._mean = self._deviation = self._last = 0.0
        self._noticed = -inf

    def __repr__(self) -> str:
        return f"<Passage {self._mean * 1e3:.3g} ms ±{self._deviation * 1e3:.3g} ms>"

    def noticed(self, unread: float, read: float, now: float) -> None:
        """A request's turn has come.

        Args:
            unread: Seconds from its bytes to their being read.
            read: Seconds since then.
            now: The present (seconds).
        """
        self._last, self._noticed = read, now
        surprise = unread + read - self._mean
        self._mean += _SHARE * surprise
        self._deviation += _SHARE * (abs(surprise) - self._deviation)

    def allowance(self, patience: float) -> float:
        """Seconds within which nearly every answer is out after the end of its batch.

        Args:
            patience: Seconds that a client waits.
        """
        return min(self._mean + _CERTAINTY * self._deviation, _MOST * patience)

    def left(self, patience: float, unread: float, now: float) -> float:
        """Seconds for which a request that is being read can wait for the end of its batch.

        It will wait for its turn as long as the last one did, unless that was longer ago.

        Args:
            patience: Seconds that its client waits in all.
            unread: Seconds of them that are over.
            now: The present (seconds).
        """
        read = self._last if now - self._noticed <= self._last else 0.0
        return patience - unread - read - self.allowance(patience)
