"""A sum that forgets."""

from adaptive_batching.core.estimators.evidence import SLOPE_KEPT


class FadingSum:
    """A sum of amounts, over the last 500 batches of all keys: the older, the less they count.

    It is brought up to date only when it is used: a batch of one key costs nothing for all others.
    """

    __slots__ = ("_batches", "_sum")

    def __init__(self) -> None:
        self._batches = 0
        self._sum = 0.0

    def add(self, amount: float, batches: int) -> None:
        """Add the amount of a batch, which is the `batches`-th of all."""
        self._sum, self._batches = self.after(batches) + amount, batches

    def after(self, batches: int) -> float:
        """What is left of the sum after so many batches of all."""
        return self._sum * SLOPE_KEPT ** (batches - self._batches)
