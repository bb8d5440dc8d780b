"""The size of batch beyond which fewer items are answered in a second."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from math import inf, sqrt

from adaptive_batching.core.estimators.evidence import (
    DEVIATION,
    LONG_MEMORY,
    MEMORY,
    PRIOR_NOISE,
    SURE,
    TRUSTED_AFTER,
)
from adaptive_batching.core.estimators.medians import median

_FINE = 3  # bits: four groups an octave, for knees stand between powers of two, or at them
_KEPT = 2 * TRUSTED_AFTER - 1  # batches of about one size
_ODD_ONES = 4  # one batch in four may be luck
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
    have, where memory or caches run out, or where the work grows faster than the batch. Sizes are
    too large if nearly all of their batches, five in all, however few of each, answered fewer items
    a second than what the best size is sure to answer. Of each size one is not counted, for it may
    have had to allocate or to compile.

    Where more waits than a batch may hold, what is not known is tried, for five batches: the
    largest size that does not seem to be too large; and where only large batches are run, so that
    nothing tells what smaller ones would answer, after 100 batches an eighth less. If it was
    better, the next trial begins at once; if not, after twice as many batches. A trial of less than
    all that waits would part callers who are answered together and come again together: so it waits
    for 500 batches.

    Attributes:
        limit: Items of the largest batch that is worth it; `inf` where none was seen to be too
            large.
        trial: The same, or less, where more items wait than a batch may hold.
    """

    __slots__ = (
        "_batches", "_next_trial", "_peak", "_sizes", "_trial_ends", "_until", "limit", "trial",
    )  # fmt: skip

    def __init__(self) -> None:
        self._batches = 0
        self._sizes: dict[int, _Size] = {}  # by the least of them
        self._peak = inf  # the limit, but for a trial
        self._until = 0.0  # batches: how long it holds
        self._next_trial = _KEPT  # batches: when the next begins
        self._trial_ends = 0  # batches
        self.limit = inf
        self.trial = inf

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
            before = before[: max(0, len(before) - sizes[:-1].count(least))]
            if before and duration > 0 and size > 0:
                ratios.append(duration / size * median(before))
        if not ratios:
            return
        factor = median(ratios)
        for least, of_size in self._sizes.items():
            rates = list(of_size.rates)
            # The rates lack blamed batches that ran before the line was trusted.
            older = max(0, len(rates) - sizes[:-1].count(least))
            rates[:older] = [rate / factor for rate in rates[:older]]
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
            if each.newest > batches - _FRESH
        }
        peak = _peak_of(rates)
        if peak < self._peak:
            self._peak, self._until = peak, batches + LONG_MEMORY
            self._next_trial = batches
        if batches >= self._trial_ends:
            self.limit = self.trial = self._peak
            if batches >= self._next_trial:
                self._try(rates)

    def _try(self, rates: Mapping[int, Sequence[float]]) -> None:
        """Begin a trial of what may be a better limit, if anything may."""
        likely = _peak_of(rates, sure=1.0)
        run = [least for least in rates if least <= self._peak and len(rates[least]) == _KEPT]
        if likely < self._peak:
            self.trial = max(least for least in rates if least <= likely)
        elif self._batches >= _FRESH and _shows_no_slope(run):
            self.trial = max(run) - 1  # of the next smaller group
            if self._batches >= LONG_MEMORY:
                self.limit = self.trial
        else:
            return
        self._trial_ends, self._next_trial = self._batches + TRUSTED_AFTER, 2 * self._batches


def _peak_of(rates: Mapping[int, Sequence[float]], sure: float = SURE) -> float:
    """One less than the least size from which on all are known to be worse than the best.

    Args:
        rates: Of each size, in ascending order.
        sure: Standard deviations by which a size may be worse than what few batches say.
    """
    deviation = sure * _scatter(rates)
    surely = {least: _at_least(each, deviation) for least, each in rates.items()}
    best = max(surely, key=surely.__getitem__, default=0)
    limit, larger = inf, 0
    for least in sorted(rates, reverse=True):
        each = rates[least]
        if least <= best or each[-1 - len(each) // _ODD_ONES] >= surely[best]:
            break
        larger += len(each) - 1
        if larger >= TRUSTED_AFTER:
            limit = least - 1
    return limit


def _at_least(rates: Sequence[float], deviation: float) -> float:
    """What a size answers in a second as good as surely; `deviation` is that of one batch."""
    count = len(rates)
    if count >= TRUSTED_AFTER:
        return rates[count // _ODD_ONES]
    return rates[count // 2] * (1.0 - deviation / sqrt(count))


def _scatter(rates: Mapping[int, Sequence[float]]) -> float:
    """Standard deviation of the rates of one size, relative."""
    deviations = [
        abs(rate / each[len(each) // 2] - 1.0)
        for each in rates.values()
        if len(each) > 1
        for rate in each
    ]
    return DEVIATION * (PRIOR_NOISE + sum(deviations)) / (1 + len(deviations))


def _shows_no_slope(sizes: Collection[int]) -> bool:
    """Whether the largest size that is known has none beside it within an octave."""
    largest = max(sizes, default=1)
    return largest > 1 and not any(largest <= 2 * least < 2 * largest for least in sizes)


def _least(size: float) -> int:
    """The least size that counts as about the same: 17, 21, 25, 29, 33, 41 …

    The largest is one to which models pad: a batch of 32 is not like one of 33 that runs as 64.
    """
    below = max(1, round(size)) - 1  # items may be worth some that are nearly whole
    coarse = max(0, below.bit_length() - _FINE)
    return (below >> coarse << coarse) + 1
