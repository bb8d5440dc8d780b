"""How fast a worker, or a batch key, is beside most of them."""

from math import exp, inf, log, sqrt
from typing import Protocol

from adaptive_batching.core.estimators.evidence import (
    ALARM,
    DEVIATION,
    MEMORY,
    SLOPE_KEPT,
    SPREAD_FLOOR,
    SURE,
    TRUSTED_AFTER,
)
from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.estimators.line import Line
from adaptive_batching.core.estimators.medians import median_low
from adaptive_batching.core.estimators.peak_size import PeakSize

_NOTICEABLE = 0.1  # of a batch's duration; what differs less is not worth any other decision


class Latency(Line, Protocol):
    """What is known of how long a batch takes; see `LinearLatency`."""

    @property
    def batches(self) -> int:
        """Batches learned from."""

    @property
    def largest(self) -> float:
        """About the largest size seen of late (items)."""

    @property
    def largest_cost(self) -> float:
        """About the most that a batch cost for each of its items, of late."""

    @property
    def peak(self) -> PeakSize:
        """From which size on fewer items are answered in a second."""

    @property
    def trusted(self) -> bool:
        """Whether enough batches were seen to refuse work on its word."""

    @property
    def usual(self) -> float:
        """Seconds that a batch takes, on average of late, of any kind."""

    def predict(self, size: float, cost: float | None = None) -> float:
        """Expected seconds for a batch of `size` items; None for the usual cost of so many."""


class Pace:
    """The mean log ratio of durations to the pool's line, over the last 50 batches of their kind.

    Of the first five it is the median, for first batches load and compile; no worker is held
    against it before.

    Their kind is a worker, or a batch key. A line of its own would be learned from a share of the
    batches only, and be as much the noisier; machines differ in the speed of all they do, which
    is one number, and so do most models.

    Durations far too long count as 4 standard deviations, unless they come again and again (CUSUM):
    pauses happen. One far too short is believed: nothing makes a slow worker fast by accident.
    """

    __slots__ = ("_above", "_first", "_spread", "batches", "log_ratio", "tolerance")

    def __init__(self) -> None:
        self.batches = 0
        """Batches learned from."""
        self.log_ratio = 0.0
        self.tolerance = inf
        """A log ratio that is further off than this differs beyond doubt, and matters."""
        self._first: list[float] = []  # too few to call one of them an outlier
        self._spread = 0.0  # mean absolute deviation
        self._above = 0.0

    def __repr__(self) -> str:
        return f"<Pace x{exp(self.log_ratio):.3g} after {self.batches} batches>"

    def learn(self, size: int, duration: float, line: Latency, cost: float = 0.0) -> None:
        """Hold a duration (seconds) against a line; one that says nothing is left out."""
        log_ratio = _log_ratio(size, duration, line, cost)
        if log_ratio is not None:
            self.observe(log_ratio)

    def observe(self, log_ratio: float, memory: float = MEMORY) -> None:
        """A batch took exp(log_ratio) times as long as the pool's line says.

        Args:
            log_ratio: What `learn` would hold against the line.
            memory: Batches that the mean is over, the new one among them.
        """
        self._fold(log_ratio, memory)
        if self.batches >= TRUSTED_AFTER:
            error = DEVIATION * self._spread / sqrt(min(self.batches, 2.0 * MEMORY))
            self.tolerance = max(_NOTICEABLE, SURE * error)
        else:
            self.tolerance = inf

    def differs(self, reference: float) -> bool:
        """Whether it is beyond doubt, and matters, that it isn't as fast as that."""
        return abs(self.log_ratio - reference) > self.tolerance

    def _fold(self, log_ratio: float, memory: float) -> None:
        self.batches += 1
        if self.batches <= TRUSTED_AFTER:
            self._first.append(log_ratio)
            self.log_ratio = median_low(self._first)
            deviations = [abs(each - self.log_ratio) for each in self._first]
            self._spread = max(sum(deviations) / len(deviations), SPREAD_FLOOR)
            return
        deviation = log_ratio - self.log_ratio
        limit = SURE * DEVIATION * self._spread
        self._above = max(0.0, self._above + min(deviation / limit, 1.0) * SURE - 1.0)
        if deviation < -limit or self._above >= ALARM:
            self._begin_anew(log_ratio, sure=deviation > 0)
            return
        deviation = min(deviation, limit)
        share = 1.0 / min(self.batches, memory)
        self.log_ratio += deviation * share
        spread = self._spread + (abs(deviation) - self._spread) * share
        self._spread = max(spread, SPREAD_FLOOR)

    def _begin_anew(self, log_ratio: float, *, sure: bool) -> None:
        """Forget what was learned: the worker, or the model behind the key, has changed."""
        self.batches = TRUSTED_AFTER if sure else 1
        self._first = [log_ratio]
        self.log_ratio = log_ratio
        self._above = 0.0


def _log_ratio(size: int, duration: float, line: Latency, cost: float) -> float | None:
    """The log of how many times as long a batch took as a line says; None if that says nothing."""
    expected = line.predict(size, cost)
    ratio = duration / expected if expected > 0 else 0.0
    return log(ratio) if 0 < ratio < inf else None  # numbers of any magnitude are divided


class ScaledLatency:
    """A line times the factor of a worker, or of a batch key; a `Latency`.

    Attributes:
        pool: The line of a worker as fast as most, or of all batch keys.
        factor: Times as long as that; 1 where nothing is known to differ.
    """

    __slots__ = ("factor", "pool")

    def __init__(self, pool: Latency, factor: float = 1.0) -> None:
        self.pool = pool
        self.factor = factor

    def __repr__(self) -> str:
        return f"<ScaledLatency {self.factor:.3g} * {self.pool!r}>"

    @property
    def fixed(self) -> float:
        """Seconds that any batch takes."""
        return self.pool.fixed * self.factor

    @property
    def per_item(self) -> float:
        """Seconds that each item adds."""
        return self.pool.per_item * self.factor

    @property
    def largest_cost(self) -> float:
        """As the pool's."""
        return self.pool.largest_cost

    @property
    def batches(self) -> int:
        """Batches learned from, of all kinds."""
        return self.pool.batches

    @property
    def largest(self) -> float:
        """About the largest size seen of late, of any kind (items)."""
        return self.pool.largest

    @property
    def peak(self) -> PeakSize:
        """From which size on fewer items are answered in a second."""
        return self.pool.peak

    @property
    def margin(self) -> float:
        """How much longer than predicted nine batches in ten stay below, relative."""
        return self.pool.margin

    @property
    def trusted(self) -> bool:
        """Whether enough batches were seen to refuse work on its word."""
        return self.pool.trusted

    @property
    def per_cost(self) -> float:
        """Seconds that each unit of a batch's cost adds, where items don't cost the same."""
        return self.pool.per_cost * self.factor

    @property
    def per_size(self) -> float:
        """Seconds that each item adds whatever it costs."""
        return self.pool.per_size * self.factor

    @property
    def mean_cost(self) -> float:
        """What a batch costs for each of its items, on average of late."""
        return self.pool.mean_cost

    @property
    def usual(self) -> float:
        """Seconds that a batch takes, on average of late, of any kind."""
        return self.pool.usual

    def predict(self, size: float, cost: float | None = None) -> float:
        """Expected seconds for a batch of `size` items; None for the usual cost of so many."""
        return self.pool.predict(size, cost) * self.factor


class KeySpread:
    """How much the paces of batch keys differ, and how much the batches of one key scatter.

    The covariance of a batch's log ratio and its key's earlier mean, both taken about the mean of
    all batches, is the variance between keys, for scatter is independent from batch to batch. About
    zero, a line that is slow because each key's first batch was cold would count as a difference.

    Attributes:
        between: Variance of the log ratios of keys, over the last 50 batches; about 0 if all are
            alike, and below it by luck, after a pause or after a change of the line.
        noise: Variance of the log ratios of one key's batches.
    """

    __slots__ = ("_again", "_batches", "_mean", "between", "noise")

    def __init__(self) -> None:
        self._batches = 0
        self._again = 0
        self._mean = 0.0
        self.between = 0.0
        self.noise = SPREAD_FLOOR**2

    def saw(self, log_ratio: float) -> None:
        """Learn the mean: a batch of any key took exp(log_ratio) times as long as the line says."""
        self._batches += 1
        self._mean += (log_ratio - self._mean) / min(self._batches, MEMORY)

    def saw_again(self, log_ratio: float, known: float) -> None:
        """Compare a batch with the earlier ones of its key, which took exp(known) times as long."""
        self._again += 1
        share = 1.0 / min(self._again, MEMORY)
        surprise = (log_ratio - known) ** 2
        if self._again > TRUSTED_AFTER:
            surprise = min(surprise, SURE**2 * self.noise)  # pauses happen
        self.noise = max(SPREAD_FLOOR**2, self.noise + (surprise - self.noise) * share)
        both = (log_ratio - self._mean) * (known - self._mean)
        self.between += (both - self.between) * share

    def believed(self, batches: float) -> float:
        """The share of a key's mean log ratio that is no luck, if it is of so many batches.

        The best linear estimate of a random effect (Henderson 1950): where keys are alike no
        difference is believed, and where they differ by far the first batch is.
        """
        between = max(0.0, self.between)
        return between / (between + self.noise / batches)


class KeyPace:
    """Learns how many times as long the batches of one key take as those of most keys.

    The pool's line moves while other keys run, so what is known of a key fades over 500 batches of
    all keys.

    Args:
        pool: The line of all keys; it is learned from durations that are divided by their factors.
        spread: How much all keys differ.

    Attributes:
        factor: Times as long as most; 1 where the difference is luck, or does not matter.
        latency: How long its batches take on a worker as fast as most.
    """

    __slots__ = ("_learned_at", "_pace", "_pool", "_spread", "_worth", "factor", "latency")

    def __init__(self, pool: LinearLatency, spread: KeySpread) -> None:
        self._pace = Pace()
        self._pool = pool
        self._spread = spread
        self._learned_at = 0  # batches of all keys
        self._worth = 0.0  # batches of its own that would tell as much, if they had just run
        self.factor = 1.0
        self.latency: Latency = pool

    def learn(self, size: int, duration: float, cost: float = 0.0) -> None:
        """Hold the duration (seconds) of a batch against the pool's line."""
        log_ratio, spread = _log_ratio(size, duration, self._pool, cost), self._spread
        if log_ratio is None:
            return
        spread.saw(log_ratio)  # first: the first warm batch after cold ones is then no difference
        if self._pace.batches:
            known = self._pace.log_ratio
            spread.saw_again(log_ratio, known)
            if log_ratio < known - SURE * sqrt(spread.noise):
                # As of a worker: no batch is that fast by accident.
                self._pace, self._worth = Pace(), 0.0
        kept = SLOPE_KEPT ** (self._pool.batches - self._learned_at)
        worth = min(self._worth * kept + 1.0, MEMORY)
        self._pace.observe(log_ratio, worth)
        self._worth, self._learned_at = min(worth, self._pace.batches), self._pool.batches
        difference = self._pace.log_ratio * spread.believed(self._worth)
        if abs(difference) > _NOTICEABLE:
            self.factor = exp(difference)
            self.latency = ScaledLatency(self._pool, self.factor)
        else:
            self.factor, self.latency = 1.0, self._pool
