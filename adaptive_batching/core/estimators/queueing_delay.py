"""Learns the way of requests in and of answers out, through an event loop with much to do."""

from math import inf

from adaptive_batching.core.estimators.delays import Ewma

# Of what a client waits: after a pause of the process no request is refused for that alone.
_LARGEST_SHARE = 0.25
_CERTAINTY = 4.0  # mean deviations; as TCP allows for late answers


class QueueingDelay:
    """Learns the time from a request's bytes to its turn, and from its batch's end to its answer.

    An accepted request needs time for both, or its answer comes too late: in overload nearly every
    accepted request is answered at the last moment.
    """

    __slots__ = ("_last", "_noticed", "_way_in", "_way_out")

    def __init__(self) -> None:
        self._way_in, self._way_out = Ewma(_CERTAINTY), Ewma(_CERTAINTY)
        self._last = 0.0
        self._noticed = -inf

    def __repr__(self) -> str:
        return f"<QueueingDelay in {self._way_in!r}, out {self._way_out!r}>"

    def noticed(self, unread: float, read: float, now: float) -> None:
        """A request's turn has come.

        Args:
            unread: Seconds from its bytes to their being read.
            read: Seconds since then.
            now: The present (seconds).
        """
        self._last, self._noticed = read, now
        self._way_in.saw(unread + read)

    def answered(self, taken: float) -> None:
        """An answer is about to leave, so many seconds after the end of its batch."""
        self._way_out.saw(taken)

    def allowance(self, patience: float) -> float:
        """Seconds within which nearly every answer is out after the end of its batch.

        As long as on the way in, if that is longer: the loop has as much to do for either.

        Args:
            patience: Seconds that a client waits.
        """
        return min(
            max(self._way_in.nearly_all, self._way_out.nearly_all), _LARGEST_SHARE * patience
        )

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
