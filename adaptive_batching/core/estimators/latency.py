"""How long a batch takes, learned from the batches already run."""

from collections import deque
from collections.abc import Sequence
from itertools import combinations
from math import inf, isfinite

from adaptive_batching.core.estimators.evidence import (
    ALARM,
    DEVIATION,
    MEMORY,
    PRIOR_NOISE,
    SLOPE_KEPT,
    SPREAD_FLOOR,
    SURE,
    TRUSTED_AFTER,
)
from adaptive_batching.core.estimators.medians import median
from adaptive_batching.core.estimators.peak_size import PeakSize

_LEVEL_KEPT = 1.0 - 1.0 / MEMORY
LARGEST_KEPT = 1.0 - 1.0 / (2.0 * MEMORY)
_MEDIAN_DEVIATION = 1.5  # standard deviations of a normal in a median absolute deviation
_ALARM_FASTER = ALARM / 2.0  # slower is believed after four batches, faster after two: pauses delay
_KEPT_AT_CHANGE = 0.05  # of what is known of the slope
_PRIOR_SLOPE_SPREAD = 0.1  # of the mean duration; how surprising a slope is before it is seen
_ONE_SIZE = 1.0  # items squared, summed: two batches that differ by one item are half of that
_LONGEST = 1e9  # seconds, thirty years: squares of it are still numbers
_WORST = 1e3  # a batch a thousand times slower than expected is as surprising as can be
_MARGIN_QUANTILE = 0.9  # 0.99 would be the machine's pauses: useless as a margin


class LinearLatency:
    """Duration of a batch: `duration = fixed + per_item * size` (in the literature alpha b + beta).

    O(1) per batch. The level follows the last 50 batches, the slope the last 500: a batcher chooses
    its sizes from its own state, so they cluster, and a slope fitted on one size is anyone's guess
    (least squares on a single size halves the time between slope and intercept: BentoML's worst
    fault). The slope is therefore shrunk towards what is known of it by as much as the noise
    demands (ridge = noise variance / prior variance), and the intercept is matched to the recent
    mean, so that the prediction is right at the sizes in use whatever the slope.

    Durations are clipped at 4 standard deviations; when that happens again and again in one
    direction (CUSUM), it is no outlier but a change: everything is taken to be so many times as
    long as before, and the line is laid through the batches that raised the alarm. The first five
    batches, and the first five after a change, are taken as they come; then the line is laid
    through most of them, and of the very first five scaled down to a warm one among cold ones.

    Before the first batch it predicts 0: it knows nothing and forces nothing.
    """

    __slots__ = (
        "_above", "_below", "_covariance", "_level_weight", "_mean_duration", "_mean_size",
        "_newest", "_quantile", "_scatter", "_since_change", "_slope_duration",
        "_slope_size", "_slope_weight", "_spread", "_variance", "batches", "fixed",
        "largest", "margin", "mixed", "peak", "per_item", "per_size", "trusted",
    )  # fmt: skip

    per_cost: float = 0.0
    """Seconds that each unit of a batch's cost adds, where items don't cost the same."""
    mean_cost: float = 0.0
    """What a batch costs for each of its items, on average of late."""
    largest_cost: float = 0.0
    """About the most that one cost for each of its items: beyond it, predictions extrapolate."""

    def __init__(self) -> None:
        self.batches = 0
        """Batches learned from."""
        self.fixed = 0.0
        """Seconds that any batch takes."""
        self.per_item = 0.0
        """Seconds that each item adds."""
        self.per_size = 0.0
        """Seconds that each item adds whatever it costs: all, unless costs are known."""
        self.largest = 0.0
        """About the largest size seen of late (items): beyond it, predictions extrapolate."""
        self.peak = PeakSize()
        """From which size on fewer items are answered in a second."""
        self._level_weight = 0.0
        self._mean_size = 0.0
        self._mean_duration = 0.0
        self._slope_weight = 0.0
        self._slope_size = 0.0
        self._slope_duration = 0.0
        self._variance = 0.0  # weighted sum of squares of size
        self._covariance = 0.0
        self._scatter = 0.0  # weighted sum of squares of duration
        self._spread = SPREAD_FLOOR  # mean absolute residual, relative to the prediction
        self._quantile = 0.0  # of the relative residuals
        self.margin = 0.0
        """How much longer than predicted nine batches in ten stay below, relative (0.1 = 10 %)."""
        self.trusted = False
        """Whether enough batches were seen to refuse work on its word."""
        self._above = 0.0
        self._below = 0.0
        self._newest: deque[tuple[int, float, float]] = deque(
            maxlen=TRUSTED_AFTER
        )  # sizes, costs, durations not clipped
        self._since_change = 0  # batches
        self.mixed = False
        """Whether batches of several kinds are learned from: some are faster than others."""

    def __repr__(self) -> str:
        return f"<LinearLatency {self.fixed * 1e3:.3g} ms + {self.per_item * 1e3:.3g} ms * size>"

    def predict(self, size: float, cost: float | None = None) -> float:
        """Expected seconds for a batch of `size` items, whatever it costs."""
        return self.fixed + self.per_item * size

    @property
    def usual(self) -> float:
        """Seconds that a batch takes, on average of late."""
        return self._mean_duration

    @property
    def error(self) -> float:
        """How far batches are from their prediction, in the mean and relative (0.1 = 10 %).

        Single outliers are clipped; less than 2 % is not told apart from nothing.
        """
        return self._spread

    def observe(self, size: int, duration: float, cost: float = 0.0) -> None:
        """Learn that a batch of `size` items took `duration` seconds, whatever it cost."""
        if not isfinite(duration) or duration < 0:
            return  # a clock that jumped says nothing
        duration = min(duration, _LONGEST)
        self.batches += 1
        self.trusted = self.batches >= TRUSTED_AFTER
        self._since_change += 1
        self.largest = max(float(size), self.largest * LARGEST_KEPT)
        expected = self.predict(size, cost)
        self._newest.append((size, cost, duration))
        guarded = duration
        if self._level_weight and expected > 0 and self._known(size, cost):
            guarded = self._guard(expected, duration)
        if guarded == duration:  # an outlier says nothing of the slope
            self._fold_slope(size, duration, cost)
        self._fold_level(size, guarded, cost)
        if self._since_change == TRUSTED_AFTER:
            self._lay_robust_line()
        if self.trusted:
            self.peak.observe(self._items_worth(size, cost), duration)

    def _known(self, size: int, cost: float) -> bool:
        """Whether a batch is like those that were seen, so that its duration may surprise."""
        return True

    def _items_worth(self, size: int, cost: float) -> float:
        """How many items that cost as much as most would add as much time."""
        return size

    def _lay_robust_line(self) -> None:
        """Lay the line through the newest batches without what a pause or compiling added to some.

        Durations far above the line through most of them are clipped to it. Of the first five, most
        may have been cold, and the very first above all. If one took less than half as long as that
        and as that line says, or than batches that scatter do, the line is scaled down to it: with
        a line that is too high jobs are refused, so that few batches run to correct it.
        """
        newest = list(self._newest)
        durations = [duration for *_, duration in newest]
        works = [self._work(size, cost) for size, cost, _ in newest]
        fixed, slope = _through_most(works, durations)
        expected = [fixed + slope * work for work in works]
        if not min(expected) > 0:
            return  # a clock that is too coarse says of some that they took no time
        ratios = [duration / each for duration, each in zip(durations, expected, strict=True)]
        spread = max(median(abs(ratio - 1.0) for ratio in ratios), SPREAD_FLOOR)
        most = 1.0 + SURE * _MEDIAN_DEVIATION * spread
        fastest = min(ratios)
        first = self.batches == TRUSTED_AFTER and not self.mixed
        if first and 0.0 < fastest * max(2.0, most) < min(1.0, ratios[0]):
            expected = [fastest * each for each in expected]
        elif max(ratios) <= most:
            return
        self._forget()
        for (size, cost, duration), each in zip(newest, expected, strict=True):
            self._fold_slope(size, min(duration, most * each), cost)
            self._fold_level(size, min(duration, most * each), cost)

    def _work(self, size: int, cost: float) -> float:
        """What a batch's duration grows with, before it is known what costs matter."""
        return size

    def _forget(self, kept: float = 0.0, factor: float = 1.0) -> None:
        """Forget the line, but for a part of what is known of its slope, times a factor."""
        self._level_weight = self._slope_weight = 0.0
        self._variance *= kept
        self._covariance *= kept * factor
        self._scatter *= kept * factor**2

    def _guard(self, expected: float, duration: float) -> float:
        """Track the residuals; return the duration with outliers clipped."""
        residual = min(duration / expected - 1.0, _WORST)
        learned = self._since_change - 1
        if learned < TRUSTED_AFTER:  # too early to call anything an outlier
            self._spread += (abs(residual) - self._spread) / (learned + 1)
            self._spread = max(self._spread, SPREAD_FLOOR)
            return duration
        deviation = DEVIATION * self._spread
        clipped = min(max(residual, -SURE * deviation), SURE * deviation)
        surprise = clipped / deviation
        self._above = max(0.0, self._above + surprise - 1.0)
        self._below = max(0.0, self._below - surprise - 1.0)
        if self._above >= ALARM or self._below >= _ALARM_FASTER:
            self._rescale()
            return duration
        self._spread += (abs(clipped) - self._spread) / MEMORY
        self._spread = max(self._spread, SPREAD_FLOOR)
        # Robbins-Monro on the pinball loss: the step is asymmetric, so it settles on the quantile.
        step = (1.0 - _MARGIN_QUANTILE) * self._spread
        self._quantile += step * (_MARGIN_QUANTILE - (residual < self._quantile))
        self.margin = max(0.0, self._quantile)
        return expected * (1.0 + clipped)

    def _rescale(self) -> None:
        """The model behind has changed: everything takes so many times as long as it did.

        Of the old line the slope is kept, in proportion, but not its place. To forget the slope
        would leave it to the first few batches after the change, which differ little in size from
        each other: for half a second predictions would be a fifth off. To keep the place would take
        the jump from there to here for a slope. Proportions that are wrong are soon unlearned.
        Nothing has changed where a single size was known and a slope explains those of the others:
        the flat line through that size was a guess.
        """
        blamed = list(self._newest)[-4 if self._above >= ALARM else -2 :]
        if self._variance < _ONE_SIZE and all(self._explained(*each) for each in blamed):
            self._level_weight = 0.0
            self._relearn(blamed)
            return
        expected = [self.predict(size, cost) for size, cost, _ in blamed]
        ratios = [
            took / each for (*_, took), each in zip(blamed, expected, strict=True) if each > 0
        ]
        factor = min(median(ratios), 1.0 + _WORST)
        if not factor > 0:
            return  # a clock that is too coarse says of some that they took no time
        self.peak.surprised(
            [(self._items_worth(size, cost), duration) for size, cost, duration in blamed]
        )
        self._forget(_KEPT_AT_CHANGE, factor)
        self._relearn(blamed)

    def _explained(self, size: int, cost: float, duration: float) -> bool:
        """Whether some slope through the one size that is known explains a batch's duration."""
        known, ratio = self._slope_duration, self._items_worth(size, cost) / self._slope_size
        scatter = SURE * DEVIATION * self._spread
        least, most = sorted((known, known * ratio))  # flat, or without a fixed part
        return ratio != 1.0 and least * (1.0 - scatter) <= duration <= most * (1.0 + scatter)

    def _relearn(self, blamed: Sequence[tuple[int, float, float]]) -> None:
        """Lay the line through the batches that raised the alarm; the last is still to come."""
        self._above = self._below = 0.0
        *before, _ = blamed
        for size, cost, duration in before:
            self._fold_slope(size, duration, cost)
            self._fold_level(size, duration, cost)
        self._since_change = len(blamed)  # the next few durations are taken as they come

    def _fold_slope(self, size: float, duration: float, cost: float) -> None:
        """Update the long moments (West's weighted recurrences)."""
        self._slope_weight = self._slope_weight * SLOPE_KEPT + 1.0
        share = 1.0 / self._slope_weight
        size_step = size - self._slope_size
        duration_step = duration - self._slope_duration
        self._slope_size += share * size_step
        self._slope_duration += share * duration_step
        kept = 1.0 - share
        self._variance = self._variance * SLOPE_KEPT + kept * size_step * size_step
        self._covariance = self._covariance * SLOPE_KEPT + kept * size_step * duration_step
        self._scatter = self._scatter * SLOPE_KEPT + kept * duration_step * duration_step

    def _fold_level(self, size: float, duration: float, cost: float) -> None:
        """Update the short means and lay the line through them."""
        self._fold_means(size, duration, cost)
        self._lay_line()

    def _fold_means(self, size: float, duration: float, cost: float) -> None:
        self._level_weight = self._level_weight * _LEVEL_KEPT + 1.0
        share = 1.0 / self._level_weight
        self._mean_size += share * (size - self._mean_size)
        self._mean_duration += share * (duration - self._mean_duration)

    def _lay_line(self) -> None:
        """Lay the line through the means with a slope that is shrunk by a ridge.

        The ridge is how much variance of sizes the prior is worth: noise variance / prior variance
        of slopes. The noise is what a line leaves unexplained, with one batch's worth of a guess.
        """
        variance, covariance, mean = self._variance, self._covariance, self._mean_duration
        explained = covariance**2 / variance if variance else 0.0
        guess = (PRIOR_NOISE * mean) ** 2
        noise = (max(self._scatter - explained, 0.0) + guess) / max(self._slope_weight - 1.0, 1.0)
        prior = (_PRIOR_SLOPE_SPREAD * mean) ** 2
        ridge = noise / prior if prior else 1.0
        slope = covariance / (variance + ridge)
        most = mean / self._mean_size  # as fixed >= 0
        self.per_item = self.per_size = min(max(slope, 0.0), most)
        self.fixed = max(mean - self.per_item * self._mean_size, 0.0)


def _through_most(works: Sequence[float], durations: Sequence[float]) -> tuple[float, float]:
    """Fixed part and slope of the line through most batches, whatever the others took.

    The slope is the median of the slopes between any two (Theil 1950, Sen 1968). None of these is
    so steep that the fixed part is negative: a batch of twice the size takes at most twice as long.
    Where most batches had one size, the only one of another size would be believed otherwise,
    whatever it took.
    """
    steepest = [
        duration / work if work else inf for work, duration in zip(works, durations, strict=True)
    ]
    slopes = [
        min((later - sooner) / (work - other), most, most_of_other)
        for (other, sooner, most_of_other), (work, later, most) in combinations(
            zip(works, durations, steepest, strict=True), 2
        )
        if work != other
    ]
    slope = max(0.0, median(slopes)) if slopes else 0.0
    rests = [duration - slope * work for work, duration in zip(works, durations, strict=True)]
    return max(0.0, median(rests)), slope
