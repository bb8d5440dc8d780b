"""How long requests and answers are under way in a process, apart from their batch."""

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

    __slots__ = ("_deviation", "_mean")

    def __init__(self) -> None:
        self._mean = self._deviation = 0.0

    def __repr__(self) -> str:
        return f"<Passage {self._mean * 1e3:.3g} ms ±{self._deviation * 1e3:.3g} ms>"

    def allowance(self, patience: float) -> float:
        """Seconds within which nearly every answer is out after the end of its batch.

        Args:
            patience: Seconds that a client waits.
        """
        return min(self._mean + _CERTAINTY * self._deviation, _MOST * patience)

    def noticed(self, waited: float) -> None:
        """A request's turn has come so many seconds after its bytes."""
        surprise = waited - self._mean
        self._mean += _SHARE * surprise
        self._deviation += _SHARE * (abs(surprise) - self._deviation)
