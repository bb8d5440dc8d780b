"""The size of batch beyond which fewer items are answered in a second."""

from collections import deque
from collections.abc import Sequence
from math import inf
from statistics import median

_FINE = 3  # bits: four bins an octave, as knees stand between powers of two, and each size below 8
_KEPT = 9  # batches of about one size, of which the middle one is believed: pauses happen
_KNOWN_AFTER = 5  # of them
_FORGOTTEN_AFTER = 500  # batches, as for the slope of the line: then the size is tried again
_WORSE = 0.95  # of the rate of the best size; what is nearer than that is noise
_ROUND = 8  # batches between two looks at all sizes


class _Size:
    """Batches of about one size."""

    __slots__ = ("newest", "rates")

    def __init__(self) -> None:
        self.newest = 0  # its last batch, counted among all
        self.rates: deque[float] = deque(maxlen=_KEPT)

    @property
    def rate(self) -> float:
        """Items a second of the middle one."""
        return sorted(self.rates)[len(self.rates) // 2]


class PeakSize:
    """Learns where larger batches begin to answer fewer items a second, if anywhere.

    A line has no such place: its batches answer the more the larger they are. Models have, where
    memory or caches run out, or where the work grows faster than the batch. What is beyond the
    place is tried again now and then.

    Attributes:
        limit: Items of the largest batch that is worth it; `inf` where none was seen to be too
            large.
    """

    __slots__ = ("_batches", "_sizes", "limit")

    def __init__(self) -> None:
        self._batches = 0
        self._sizes: dict[int, _Size] = {}  # by the least of them
        self.limit = inf

    def __repr__(self) -> str:
        return f"<PeakSize {self.limit:g} after {self._batches} batches>"

    def observe(self, size: int, duration: float) -> None:
        """A batch of `size` items took `duration` seconds."""
        if not duration > 0:
            return
        self._batches += 1
        least = _least(size)
        of_size = self._sizes.get(least)
        if of_size is None or self._batches - of_size.newest > _FORGOTTEN_AFTER:
            of_size = self._sizes[least] = _Size()
        of_size.newest = self._batches
        of_size.rates.append(size / duration)
        if self._batches % _ROUND == 0 and len(self._sizes) > 1:
            self.limit = self._find()

    def surprised(self, blamed: Sequence[tuple[int, float]]) -> None:
        """The newest batches took another time than the line says: sizes and durations (seconds).

        If they did so by what is known of their sizes too, the model has changed, for other sizes
        alike. If nothing is known of those, nothing is known any more.
        """
        ratios = []
        for size, duration in blamed:
            of_size = self._sizes.get(_least(size))
            before = [] if of_size is None else list(of_size.rates)[: -len(blamed)]
            if before and duration > 0:
                ratios.append(duration / size * sorted(before)[len(before) // 2])
        if not ratios:
            self._sizes.clear()
            return
        factor = median(ratios)
        for of_size in self._sizes.values():
            of_size.rates = deque([rate / factor for rate in of_size.rates], maxlen=_KEPT)

    def _knows(self, least: int) -> bool:
        """Whether enough batches of about that size were seen not too long ago."""
        of_size = self._sizes.get(least)
        if of_size is None or len(of_size.rates) < _KNOWN_AFTER:
            return False
        return self._batches - of_size.newest <= _FORGOTTEN_AFTER

    def _find(self) -> float:
        """One less than the least size, above the best, that is known to be worse."""
        rates = {least: each.rate for least, each in self._sizes.items() if self._knows(least)}
        if len(rates) < 2:
            return inf
        best = max(rates, key=rates.__getitem__)
        worse = (least for least in rates if least > best and rates[least] < _WORSE * rates[best])
        return min(worse, default=inf) - 1


def _least(size: int) -> int:
    """The least size that counts as about the same."""
    coarse = max(0, size.bit_length() - _FINE)
    return size >> coarse << coarse
