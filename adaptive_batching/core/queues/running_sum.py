"""A sum from which what was added can be taken away again."""


class RunningSum:
    """A sum that keeps what rounding loses, so that a large number hides no small ones for ever.

    That is Neumaier's sum (ZAMM 54, 1974): after 2^53 has come and gone, a plain one has lost all
    that is less than 1.
    """

    __slots__ = ("_lost", "_total")

    def __init__(self) -> None:
        self._total = self._lost = 0.0

    @property
    def value(self) -> float:
        """The sum of what was added."""
        return self._total + self._lost

    def add(self, number: float) -> None:
        """Add a number; a negative one takes away what was added."""
        before, self._total = self._total, self._total + number
        if abs(before) >= abs(number):
            self._lost += (before - self._total) + number
        else:
            self._lost += (number - self._total) + before
