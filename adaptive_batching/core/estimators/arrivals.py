"""How soon the next job is likely to come."""

from collections import deque
from math import exp, inf

from adaptive_batching.core.estimators.clump import Clump
from adaptive_batching.core.estimators.fan_out import FanOut

_UNDIGESTED = 16_384  # arrivals kept while every worker hangs, when none is learned from
_GAP_MEMORY = 256.0  # gaps; then old ones count half
_END_OF_CLUMP = 0.2  # of the time that a batch of one takes: a longer silence parts two clumps
_EDGES = (_END_OF_CLUMP / 2 / 2, _END_OF_CLUMP, 1.0)  # likewise, some two octaves apart
_PRIOR_GAPS = 8.0  # gaps of the plain rate; an age that was hardly seen says little


class ArrivalRate:
    """Three views of one stream of arrivals, all O(1) per arrival.

    They are learned from when a batch leaves or ends, and at each decision while none runs; the
    rate, the newest and the clump count what has come since then.

    *Rate*: exponentially weighted count over `window` seconds, of jobs, and the items that one
    brings on average.

    *Hazard*: arrivals per second given the time since the last one. Flat for Poisson traffic; high
    and then low where callers fan out, so that a clump is waited for and a gap is not.

    *Clump after an answer*: see `Clump`.
    """

    __slots__ = (
        "_counted_until", "_gap_counts", "_gap_exposure", "_item_rate", "_newest", "_offered",
        "_rate", "_refused", "_since_refused", "arrived", "clump", "fan_out", "fresh", "mean_size",
        "more_items", "offered_ratio",
    )  # fmt: skip

    def __init__(self) -> None:
        self.fresh: deque[float] = deque(maxlen=_UNDIGESTED)
        """Arrivals since the last `digest`."""
        self.arrived = self.fresh.append
        """Call with the time of each arrival (seconds): the hot path, a deque's own append."""
        self.more_items = 0
        """Items that came beyond one for each arrival, since the last `digest`."""
        self.offered_ratio = 1.0
        """Offered jobs for each accepted one, over the window; at least 1."""
        self._newest = -inf  # when the last one came (seconds), of those that are digested
        self.mean_size = 1.0
        """Items that an arrival brings, on average over the window; at least 1."""
        self._rate = 0.0
        self._item_rate = 0.0
        self._offered = 0.0  # jobs a second, refused ones included
        self._counted_until = 0.0
        self._gap_counts = [0.0] * (len(_EDGES) + 1)
        self._gap_exposure = [0.0] * (len(_EDGES) + 1)
        self.fan_out = FanOut()
        """How much of a clump is still to come."""
        self.clump = Clump(self.fresh)
        """What comes in the clump after an answer."""
        self._refused = 0  # jobs since the last `digest`
        self._since_refused = 0  # jobs that were not, since one was

    def __repr__(self) -> str:
        return f"<ArrivalRate {self._rate:.4g}/s newest={self.newest:.6f}>"

    @property
    def newest(self) -> float:
        """When the last one came (seconds)."""
        return self.fresh[-1] if self.fresh else self._newest

    def digest(self, now: float, window: float, single: float) -> None:
        """Fold in what arrived since the last call, which is something.

        Args:
            now: The present (seconds).
            window: Time constant of the rate (seconds).
            single: Predicted duration of a batch of one (seconds): the scale of the hazard's ages
                and of the clump's steps.
        """
        fresh = list(self.fresh)
        self.fresh.clear()
        if window > 0:
            jobs = len(fresh)  # of a flood that was forgotten, the items are not known
            items = jobs + self.more_items if jobs < _UNDIGESTED else jobs * self.mean_size
            kept = exp((self._counted_until - now) / window)
            span = max(window, fresh[-1] - fresh[0])  # a hang of the workers is no flood
            weight = exp((fresh[-1] - now) / window) / span
            self._rate = self._rate * kept + jobs * weight
            self._item_rate = self._item_rate * kept + items * weight
            self._offered = self._offered * kept + (jobs + self._refused) * weight
            self._since_refused += jobs
            if self._since_refused > self._rate * window:  # all that are counted were let in
                self._offered = self._rate
            self._counted_until = now
            if self._rate > 0:  # it is 0 if all came a thousand windows ago
                self.mean_size = self._item_rate / self._rate
                self.offered_ratio = self._offered / self._rate
        self.more_items = self._refused = 0
        if single > 0:
            self._learn_gaps(fresh, single)
        self.clump.digest(fresh, single)
        self._newest = fresh[-1]

    def refused(self, now: float) -> None:
        """Count a job that was refused at this instant (seconds).

        It is no arrival: no batch contains it, and its client may send again at once.
        """
        self._refused += 1
        self._since_refused = -len(self.fresh)  # which came before
        self.clump.refused(now)

    def rate(self, now: float, window: float) -> float:
        """Arrivals (jobs) per second over about the last `window` seconds."""
        if window <= 0:
            return 0.0
        since, fresh = now - self._counted_until, self.fresh
        known = self._rate * exp(-since / window) if since else self._rate
        if not fresh:
            return known
        span = max(window, fresh[-1] - fresh[0])  # as `digest` counts them
        return known + len(fresh) * (exp((fresh[-1] - now) / window) / span)

    def hazard(self, now: float, rate: float, single: float) -> tuple[float, float]:
        """Arrivals per second to expect now, and the instant until which that estimate holds."""
        index, until = 0, inf
        newest = self.fresh[-1] if self.fresh else self._newest  # calls add up on the hot path
        for edge in _EDGES:
            end = newest + edge * single
            if now < end:
                until = end
                break
            index += 1
        exposure = self._gap_exposure[index]
        if rate <= 0:
            return 0.0, until
        hazard = (self._gap_counts[index] + _PRIOR_GAPS) / (exposure + _PRIOR_GAPS / rate)
        return hazard, until

    def _learn_gaps(self, fresh: list[float], single: float) -> None:
        counts, exposures = self._gap_counts, self._gap_exposure
        previous = fresh[0] if self._newest == -inf else self._newest
        gaps = []
        nearest = _EDGES[0] * single
        near = near_exposure = 0.0
        for arrival in fresh:
            gap = arrival - previous
            previous = arrival
            if not gap:  # arrivals together say nothing about a silence
                continue
            gaps.append(gap)
            if gap <= nearest:  # as most gaps of busy streams are, and this is their hot path
                near += 1.0
                near_exposure += gap
                continue
            lower = 0.0
            for index, edge in enumerate(_EDGES):
                upper = edge * single
                if gap <= upper:
                    exposures[index] += gap - lower
                    counts[index] += 1.0
                    break
                exposures[index] += upper - lower
                lower = upper
            else:
                exposures[-1] += gap - lower
                counts[-1] += 1.0
        counts[0] += near
        exposures[0] += near_exposure
        self.fan_out.learn(gaps, _END_OF_CLUMP * single)
        nearer, near, far, farthest = counts
        if nearer + near + far + farthest > _GAP_MEMORY:
            self._gap_counts = [count / 2 for count in counts]
            self._gap_exposure = [exposure / 2 for exposure in exposures]
