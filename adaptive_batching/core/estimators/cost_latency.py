"""How long a batch takes where items don't cost the same, learned from the batches already run."""

from adaptive_batching.core.estimators.evidence import EXTRAPOLATION, PRIOR_NOISE, SLOPE_KEPT
from adaptive_batching.core.estimators.latency import LARGEST_KEPT, LinearLatency
from adaptive_batching.core.estimators.peak_size import PeakSize

_PRIOR_ITEM_SPREAD = 0.1  # of what an item takes in all; for the cost it is all of that
_SAME_ITEM = 1.5  # times what the usual item took; rates in other items can't be compared
_NO_COST = 2.0**-53  # a mean cost below it counts as none: squares of it are still numbers


class CostLatency(LinearLatency):
    """Duration of a batch: `duration = fixed + b * size + per_cost * cost`.

    The scheduler chooses sizes from its own state, but costs come from outside and vary, so that
    their slope is soon known. Sizes and costs grow together: what either could explain is taken to
    be due to the cost (ridge regression with a narrow prior on `b` and a wide one on `per_cost`).
    As long as costs have not varied, they are taken to be all that a batch takes its time for: they
    were declared for a reason, and batches that are divided by them soon show the contrary, while
    batches that are not would never show anything.
    Outliers, changes and the level are treated as in `LinearLatency`.

    `per_item` is what one more item adds at the mean cost, `b + per_cost * mean_cost`, so that a
    reader that knows no costs has the line of the batches that were run of late.
    """

    __slots__ = (
        "_cost_covariance", "_cost_size", "_cost_variance", "_mean_batch_cost", "_slope_cost",
        "_usual_item", "largest_cost", "mean_cost", "per_cost",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.per_cost = 0.0
        self.mean_cost = 0.0
        self.largest_cost = 0.0
        self._mean_batch_cost = 0.0
        self._usual_item = 0.0  # seconds
        self._slope_cost = 0.0
        self._cost_variance = 0.0  # weighted sum of squares of cost
        self._cost_covariance = 0.0  # with duration
        self._cost_size = 0.0  # covariance with size

    def __repr__(self) -> str:
        line = f"{self.fixed * 1e3:.3g} ms + {self.per_size * 1e3:.3g} ms * size"
        return f"<CostLatency {line} + {self.per_cost * 1e6:.3g} us * cost>"

    def predict(self, size: float, cost: float | None = None) -> float:
        """Expected seconds for a batch of `size` items; None for the usual cost of so many."""
        if cost is None:
            return self.fixed + self.per_item * size
        return self.fixed + self.per_size * size + self.per_cost * cost

    def observe(self, size: int, duration: float, cost: float = 0.0) -> None:
        """Learn that a batch of `size` items that cost so much took `duration` seconds."""
        unit = self._usual_item
        if not unit / _SAME_ITEM <= self.per_item <= unit * _SAME_ITEM:
            self._usual_item = self.per_item
            self.peak = PeakSize()  # batches are not worth as many items as they were
        super().observe(size, duration, cost)
        self.largest_cost = max(cost / size, self.largest_cost * LARGEST_KEPT)

    def _known(self, size: int, cost: float) -> bool:
        return cost <= EXTRAPOLATION * self.largest_cost * size

    def _items_worth(self, size: int, cost: float) -> float:
        if not self.per_item:
            return size
        return (self.per_size * size + self.per_cost * cost) / self.per_item

    def _work(self, size: int, cost: float) -> float:
        return cost if self._mean_batch_cost > _NO_COST else size

    def _forget(self, kept: float = 0.0, factor: float = 1.0) -> None:
        super()._forget(kept, factor)
        self._cost_variance *= kept
        self._cost_size *= kept
        self._cost_covariance *= kept * factor

    def _fold_slope(self, size: float, duration: float, cost: float) -> None:
        size_step = size - self._slope_size
        duration_step = duration - self._slope_duration
        cost_step = cost - self._slope_cost
        super()._fold_slope(size, duration, cost)
        share = 1.0 / self._slope_weight
        self._slope_cost += share * cost_step
        step = (1.0 - share) * cost_step
        self._cost_variance = self._cost_variance * SLOPE_KEPT + step * cost_step
        self._cost_size = self._cost_size * SLOPE_KEPT + step * size_step
        self._cost_covariance = self._cost_covariance * SLOPE_KEPT + step * duration_step

    def _fold_means(self, size: float, duration: float, cost: float) -> None:
        super()._fold_means(size, duration, cost)
        self._mean_batch_cost += (cost - self._mean_batch_cost) / self._level_weight
        self.mean_cost = self._mean_batch_cost / self._mean_size

    def _lay_line(self) -> None:
        """Solve the two normal equations, with both slopes at least 0, through the recent means."""
        mean, size, cost = self._mean_duration, self._mean_size, self._mean_batch_cost
        if not (mean and cost > _NO_COST):  # sizes alone matter
            super()._lay_line()
            self.per_cost = 0.0
            return
        noise = self._noise()
        of_size = self._variance + noise / (_PRIOR_ITEM_SPREAD * mean / size) ** 2
        of_cost = self._cost_variance + noise / (mean / cost) ** 2
        with_cost = self._cost_covariance + noise * cost / mean  # the prior's mean is `mean / cost`
        both, determinant = self._cost_size, of_size * of_cost - self._cost_size**2
        if not determinant > 0:
            super()._lay_line()  # numbers too small to be told from 0
            return
        per_size = (self._covariance * of_cost - with_cost * both) / determinant
        per_cost = (with_cost * of_size - self._covariance * both) / determinant
        if per_size < 0:
            per_size, per_cost = 0.0, max(with_cost / of_cost, 0.0)
        elif per_cost < 0:
            per_size, per_cost = max(self._covariance / of_size, 0.0), 0.0
        growth = per_size * size + per_cost * cost
        scale = min(1.0, mean / growth) if growth else 1.0  # as fixed >= 0
        self.per_size, self.per_cost = per_size * scale, per_cost * scale
        self.per_item = self.per_size + self.per_cost * self.mean_cost
        self.fixed = max(mean - self.per_item * size, 0.0)

    def _noise(self) -> float:
        """Variance that the slopes of before leave unexplained, with a guess worth one batch."""
        per_size, per_cost = self.per_size, self.per_cost
        explained = 2.0 * (per_size * self._covariance + per_cost * self._cost_covariance)
        fitted = per_size**2 * self._variance + per_cost**2 * self._cost_variance
        fitted += 2.0 * per_size * per_cost * self._cost_size
        guess = (PRIOR_NOISE * self._mean_duration) ** 2
        left = max(self._scatter - explained + fitted, 0.0) + guess
        return left / max(self._slope_weight - 2.0, 1.0)
