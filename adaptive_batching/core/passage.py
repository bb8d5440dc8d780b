"""How long requests and answers are under way in a process, before and after their batch."""

_SHARE = 1 / 16  # of a newcomer in the mean
_CERTAINTY = 2.0  # mean deviations; as TCP allows for late answers (Jacobson 1988, with 4)


class Passage:
    """Mean and mean deviation of the time from a request's bytes to its turn.

    An event loop that has much to do reads a request late, and gets round to its answer as late
    again. Who is let in must have the time for both, or he is served in vain.
    """

    __slots__ = ("_deviation", "_mean")

    def __init__(self) -> None:
        self._mean = self._deviation = 0.0

    def __repr__(self) -> str:
        return f"<Passage {self._mean * 1e3:.3g} ms ±{self._deviation * 1e3:.3g} ms>"

    @property
    def late(self) -> float:
        """Seconds that nearly every answer is out after its batch's end."""
        return self._mean + _CERTAINTY * self._deviation

    def left(self, patience: float, waited: float) -> float:
        """Seconds within which a batch has to end, so that its answer is out in time.

        Args:
            patience: Seconds from the request's bytes to the last of its answer.
            waited: Seconds of them that were over when its turn came.
        """
        surprise = waited - self._mean
        self._mean += _SHARE * surprise
        self._deviation += _SHARE * (abs(surprise) - self._deviation)
        return patience - waited - self.late
