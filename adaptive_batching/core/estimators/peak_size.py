"""The size of batch beyond which fewer items are answered in a second."""

from collections import deque
from collections.abc import Mapping, Sequence
from math import inf

from adaptive_batching.core.estimators.evidence import LONG_MEMORY, MEMORY, TRUSTED_AFTER
from adaptive_batching.core.estimators.medians import median

_FINE = 3  # bits: four groups an octave, for knees stand between powers of two, or at them
_KEPT = 2 * TRUSTED_AFTER - 1  # batches of about one size: a line is trusted after half of them
_FRESH = 2 * MEMORY  # batches: older ones may be of a model that was faster or slower
_ROUND = 8  # batches between two looks at all sizes, which take as long as a batch's other lessons


class _Size:
    """Batches of about one size.

    Attributes:
        newest: The last of them, counted among all.
        rates: Items that they answered in a second.
    """

    __slots__ = ("newest", "rates")

    def __init__(self) -> None:
        self.newest = 0
        self.rates: deque[float] = deque(maxlen=_KEPT)


class PeakSize:
    """Learns where larger batches begin to answer fewer items a second, if anywhere.

    A line has no such size: the larger its batches, the more items they answer in a second. Models
    have, where memory or caches run out, or where the work grows faster than the batch. A size is
    too large if three quarters of its batches, and of those of all larger sizes that are known,
    answered less than three quarters of those of the best size: so the scatter of the model itself
    says what is noise.

    Where only large batches are run, nothing tells what smaller ones would answer. So after 500
    batches nine are tried with an eighth less, and half as often each time that shows no peak.

    Attributes:
        limit: Items of the largest batch that is worth it, or to be tried now; `inf` where none was
            seen to be too large.
    """

    __slots__ = ("_batches", "_next_trial", "_peak", "_sizes", "_trial_ends", "_until", "limit")

    def __init__(self) -> None:
        self._batches = 0
        self._sizes: dict[int, _Size] = {}  # by the least of them
        self._peak = inf  # the limit, but for a trial
        self._until = 0.0  # batches: how long it holds
        self._next_trial = LONG_MEMORY  # likewise, when the next begins
        self._trial_ends = 0  # likewise
        self.limit = inf

    def __repr__(self) -> str:
        return f"<PeakSize {self.limit:g} after {self._batches} batches>"

    def observe(self, size: float, duration: float) -> None:
        """A batch of `size` items, or of what they are worth, took `duration` seconds.

        One that took no time, or whose items cost nothing, says nothing of how fast others are.
        """
        if not (duration > 0 and size > 0):
            return
        self._batches += 1
        least = _least(size)
        of_size = self._sizes.get(least)
        if of_size is None:
            of_size = self._sizes[least] = _Size()
        of_size.newest = self._batches
        of_size.rates.append(size / duration)
        if self._batches % _ROUND == 0 or self._batches == self._trial_ends:
            self._look()

    def surprised(self, blamed: Sequence[tuple[float, float]]) -> None:
        """The newest batches took another time than the line says: sizes and durations (seconds).

        If they did so by what is known of their sizes too, the model has changed, for other sizes
        alike. If nothing is known of those, it may as well be that larger batches are slow.

        Args:
            blamed: The oldest first; the last of them has not been observed yet.
        """
        sizes = [_least(size) for size, _ in blamed]
        ratios = []
        for least, (size, duration) in zip(sizes, blamed, strict=True):
            known = self._sizes.get(least)
            before = [] if known is None else list(known.rates)
            before = before[: len(before) - sizes[:-1].count(least)]
            if before and duration > 0 and size > 0:
                ratios.append(duration / size * median(before))
        if not ratios:
            return
        factor = median(ratios)
        for least, of_size in self._sizes.items():
            since = sizes[:-1].count(least)
            rates = list(of_size.rates)
            rates[: len(rates) - since] = [rate / factor for rate in rates[: len(rates) - since]]
            of_size.rates = deque(rates, maxlen=_KEPT)

    def _look(self) -> None:
        batches = self._batches
        if self._peak < inf and batches >= self._until:  # larger ones are tried again
            self._sizes = {
                least: each for least, each in self._sizes.items() if least <= self._peak
            }
            self._peak = inf
        rates = {
            least: sorted(each.rates)
            for least, each in self._sizes.items()
            if len(each.rates) == _KEPT and each.newest > batches - _FRESH
        }
        peak = _peak_of(rates)
        if peak < self._peak:
            self._peak, self._until = peak, batches + LONG_MEMORY
            self._next_trial = batches + _FRESH
        if batches >= self._next_trial and _shows_no_slope(rates):
            largest = max(rates)
            self.limit = largest - 1  # of the next smaller group
            self._trial_ends, self._next_trial = batches + _KEPT, 2 * batches
        elif batches >= self._trial_ends:
            self.limit = self._peak


def _peak_of(rates: Mapping[int, Sequence[float]]) -> float:
    """One less than the least size from which on all are known to be worse than the best.

    Args:
        rates: Of each size that is known, in ascending order.
    """
    if len(rates) < 2:
        return inf
    best = max(rates, key=lambda least: rates[least][_KEPT // 2])
    limit = inf
    for least in sorted(rates, reverse=True):
        if least <= best or rates[least][-3] >= rates[best][2]:
            break
        limit = least - 1
    return limit


def _shows_no_slope(rates: Mapping[int, Sequence[float]]) -> bool:
    """Whether the largest size that is known has none beside it within an octave."""
    largest = max(rates, default=1)
    return largest > 1 and not any(largest <= 2 * least < 2 * largest for least in rates)


def _least(size: float) -> int:
    """The least size that counts as about the same: 17, 21, 25, 29, 33, 41 …

    The largest is one to which models pad: a batch of 32 is not like one of 33 that runs as 64.
    """
    below = max(1, round(size)) - 1  # items may be worth some that are nearly whole
    coarse = max(0, below.bit_length() - _FINE)
    return (below >> coarse << coarse) + 1
