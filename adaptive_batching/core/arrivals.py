"""How soon the next job is likely to come."""

from collections.abc import Sequence
from math import exp, inf

_SAMPLED_GAPS = 32  # per decision: bounds its cost, and neighbours say the same
_GAP_MEMORY = 256.0  # gaps; then old ones count half
_EDGES = (0.05, 0.2, 1.0)  # of the time that a batch of one takes
_SILENCE = 2.0  # after a silence u the hazard is at most this / u: bursts end
_CLUMP_BIN = 0.25e-3  # seconds
_CLUMP_BINS = 40
_CLUMP_MEMORY = 0.98  # per answered batch
_CLUMP_TRUSTED = 5.0  # answered batches


class ArrivalRate:
    """Three views of one stream of arrivals, all O(1) per arrival.

    *Rate*: exponentially weighted count over `window` seconds.

    *Hazard*: arrivals per second given the time since the last one. Flat for Poisson traffic; high
    and then low where callers fan out, so that a clump is waited for and a gap is not.

    *Clump after an answer*: callers that send again when answered arrive in a clump just after a
    batch completes, when nothing has arrived for milliseconds and every other view says "quiet".
    """

    __slots__ = (
        "_answered", "_clump_answers", "_clump_counts", "_clump_exposure", "_counted_until",
        "_fresh", "_gap_counts", "_gap_exposure", "_newest", "_rate", "arrived",
    )  # fmt: skip

    def __init__(self) -> None:
        self._fresh: list[float] = []
        self.arrived = self._fresh.append
        """Call with the time of each arrival (seconds): the hot path, a list's own append."""
        self._newest = -inf
        self._rate = 0.0
        self._counted_until = 0.0
        self._gap_counts = [0.0] * (len(_EDGES) + 1)
        self._gap_exposure = [0.0] * (len(_EDGES) + 1)
        self._answered = -inf
        self._clump_counts = [0.0] * _CLUMP_BINS
        self._clump_exposure = [0.0] * _CLUMP_BINS
        self._clump_answers = 0.0

    def __repr__(self) -> str:
        return f"<ArrivalRate {self._rate:.4g}/s newest={self._newest:.6f}>"

    def digest(self, now: float, window: float, single: float) -> None:
        """Fold in what arrived since the last call.

        Args:
            now: The present (seconds).
            window: Time constant of the rate (seconds).
            single: Predicted duration of a batch of one (seconds): the scale of the hazard's ages.
        """
        fresh = self._fresh
        if fresh:
            if window > 0:
                self._rate = self._rate * exp((self._counted_until - now) / window)
                self._rate += len(fresh) / window
                self._counted_until = now
            if single > 0:
                self._learn_gaps(fresh, single)
            if fresh[0] - self._answered < _CLUMP_BIN * _CLUMP_BINS:
                self._learn_clump(fresh)
            self._newest = fresh[-1]
            fresh.clear()

    def rate(self, now: float, window: float) -> float:
        """Arrivals per second over about the last `window` seconds."""
        if window <= 0:
            return 0.0
        return self._rate * exp((self._counted_until - now) / window)

    def hazard(self, now: float, rate: float, single: float) -> tuple[float, float]:
        """Arrivals per second to expect now, and the instant until which that estimate holds."""
        silence = now - self._newest
        index = 0
        until = inf
        for edge in _EDGES:
            if silence < edge * single:
                until = self._newest + edge * single
                break
            index += 1
        exposure = self._gap_exposure[index]
        # One arrival's worth of the plain rate is the prior: an empty bin says little.
        prior = 8.0 / rate if rate > 0 else 0.0
        hazard = (self._gap_counts[index] + 8.0) / (exposure + prior) if prior else 0.0
        if silence > 0 and hazard * silence > _SILENCE:
            hazard = _SILENCE / silence
        return hazard, until

    def answered(self, now: float) -> None:
        """A batch of this stream's jobs was answered."""
        self._close_clump(now)
        self._answered = now

    def clump(self, now: float) -> Sequence[tuple[float, float]]:
        """The clump expected after the last answer: (instant, arrivals expected until then).

        Empty when the last answer is long ago or too few were seen.
        """
        since = now - self._answered
        if self._clump_answers < _CLUMP_TRUSTED or since >= _CLUMP_BIN * _CLUMP_BINS:
            return ()
        first = int(since / _CLUMP_BIN)
        expected = 0.0
        share = first + 1 - since / _CLUMP_BIN  # of the first bin that is still ahead
        ahead = []
        for index in range(first, _CLUMP_BINS):
            exposure = self._clump_exposure[index]
            if exposure > 0:
                expected += share * self._clump_counts[index] / exposure
            share = 1.0
            ahead.append((self._answered + (index + 1) * _CLUMP_BIN, expected))
        return ahead

    def _learn_gaps(self, fresh: list[float], single: float) -> None:
        counts, exposures = self._gap_counts, self._gap_exposure
        previous = fresh[-_SAMPLED_GAPS - 1] if len(fresh) > _SAMPLED_GAPS else self._newest
        if previous == -inf:
            previous = fresh[0]
        for arrival in fresh[-_SAMPLED_GAPS:]:
            gap = arrival - previous
            previous = arrival
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
        if sum(counts) > _GAP_MEMORY:
            self._gap_counts = [count / 2 for count in counts]
            self._gap_exposure = [exposure / 2 for exposure in exposures]

    def _learn_clump(self, fresh: list[float]) -> None:
        counts, answered = self._clump_counts, self._answered
        for arrival in fresh:
            index = int((arrival - answered) / _CLUMP_BIN)
            if 0 <= index < _CLUMP_BINS:
                counts[index] += 1.0

    def _close_clump(self, now: float) -> None:
        """Say how much of each bin the last answer let us see, and let old answers fade."""
        if self._answered == -inf:
            return
        seen = min(max((now - self._answered) / _CLUMP_BIN, 0.0), float(_CLUMP_BINS))
        whole = int(seen)
        self._clump_counts = [_CLUMP_MEMORY * count for count in self._clump_counts]
        exposure = [_CLUMP_MEMORY * share for share in self._clump_exposure]
        for index in range(whole):
            exposure[index] += 1.0
        if whole < _CLUMP_BINS:
            exposure[whole] += seen - whole
        self._clump_exposure = exposure
        self._clump_answers = _CLUMP_MEMORY * self._clump_answers + 1.0
