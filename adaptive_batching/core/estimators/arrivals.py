"""How soon the next job is likely to come."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from math import exp, inf, sqrt

from adaptive_batching.core.estimators.evidence import MEMORY, SURE
from adaptive_batching.core.estimators.fan_out import FanOut

_UNDIGESTED = 16_384  # arrivals kept while every worker hangs, when no decision is made
_SAMPLED_GAPS = 32  # per decision: bounds its cost, and neighbours say the same
_GAP_MEMORY = 256.0  # gaps; then old ones count half
_END_OF_CLUMP = 0.2  # of the time that a batch of one takes: a longer silence parts two clumps
_EDGES = (_END_OF_CLUMP / 2 / 2, _END_OF_CLUMP, 1.0)  # likewise, some two octaves apart
_SAME_INSTANT = 4e-4  # likewise; arrivals together say nothing about a silence
_PRIOR_GAPS = 8.0  # gaps of the plain rate; an age that was hardly seen says little
_OCTAVE = 3  # steps
_OCTAVES = 6  # below the duration of a batch of one: finer steps change nothing; two above it
_CLUMP_EDGES: tuple[float, ...] = tuple(
    2.0 ** (step / _OCTAVE) for step in range(-_OCTAVES * _OCTAVE, 2 * _OCTAVE + 1)
)
_CLUMP_BINS = len(_CLUMP_EDGES)
_CLUMP_GROWTH = 1 / (1 - 1 / MEMORY)  # an answer weighs that much more than the one before it
_CLUMP_ROUND = 8  # answers between two looks at the histogram
_NEARLY_NONE = 1e-3  # answers: to divide by less says nothing
_OVERFLOW = 1e12  # weights are scaled down long before floats run out


class ArrivalRate:
    """Three views of one stream of arrivals, all O(1) per arrival.

    *Rate*: exponentially weighted count over `window` seconds, of jobs, and the items that one
    brings on average.

    *Hazard*: arrivals per second given the time since the last one. Flat for Poisson traffic; high
    and then low where callers fan out, so that a clump is waited for and a gap is not.

    *Clump after an answer*: callers that send again when answered arrive in a clump just after a
    batch completes, when nothing has arrived for milliseconds and every other view says "quiet".
    """

    __slots__ = (
        "_again", "_answers", "_background", "_callers", "_clump", "_clump_counts", "_clump_ends",
        "_come", "_counted_until", "_few", "_gap_counts", "_gap_exposure", "_item_rate",
        "_last_jobs", "_many", "_mean_jobs", "_offered", "_rate", "_refused", "_refused_at",
        "_returned", "_scale", "_share", "_weight", "_workers",
        "answered_at", "arrived", "fan_out", "fresh", "mean_size", "more_items", "newest",
        "offered_ratio", "returning", "unanswered",
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
        self.newest = -inf
        """When the last one came (seconds), of those that are digested."""
        self.mean_size = 1.0
        """Items that an arrival brings, on average over the window; at least 1."""
        self.unanswered = 1.0
        """Part of the arrivals that no answer brings. Callers who return together leave short gaps
        behind, as if more of them were on their way: so much of the hazard is not theirs."""
        self._rate = 0.0
        self._item_rate = 0.0
        self._offered = 0.0  # jobs a second, refused ones included
        self._counted_until = 0.0
        self._gap_counts = [0.0] * (len(_EDGES) + 1)
        self._gap_exposure = [0.0] * (len(_EDGES) + 1)
        self.fan_out = FanOut()
        """How much of a clump is still to come."""
        self.answered_at = -inf
        """When a batch was last answered (seconds)."""
        self._come = 0  # arrivals since
        self._answers = 0
        self._workers = 1
        self._callers = 0.0  # that may send again since then: of jobs answered, shed or expired
        self._refused = 0  # jobs since the last `digest`
        self._refused_at: list[float] = []  # when those of them came that count in the clump
        self._returned = 0  # jobs of the clump that were refused, since the answer
        self._again = 0  # arrivals since the answer that are taken for the same callers
        self.returning = 1.0
        """Part of the few jobs, shed for the many, whose callers came back with the many."""
        self._few = 0  # such jobs since the answer
        self._many = 0.0  # arrivals that were expected besides
        self._scale = 0.0  # seconds that a batch of one takes
        self._background = 0.0  # arrivals in that time that belong to no clump
        self._weight = 1.0
        self._clump_counts = [0.0] * _CLUMP_BINS  # arrivals by time since the last answer
        self._clump_ends = [0.0] * (_CLUMP_BINS + 1)  # how long after it the next answer came
        self._clump: list[float] = []  # arrivals expected from a mean answer to each bin's end
        self._mean_jobs = 0.0  # of an answer
        self._last_jobs = 0.0  # of the last answers, each of which weighs 1 / workers
        self._share = 1.0  # the second of the first

    def __repr__(self) -> str:
        return f"<ArrivalRate {self._rate:.4g}/s newest={self.newest:.6f}>"

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
            kept = exp((self._counted_until - now) / window)
            self._rate = self._rate * kept + len(fresh) / window
            self._item_rate = self._item_rate * kept + (len(fresh) + self.more_items) / window
            self._offered = self._offered * kept + (len(fresh) + self._refused) / window
            self._counted_until = now
            self.mean_size = self._item_rate / self._rate
            self.offered_ratio = self._offered / self._rate
        self.more_items = self._refused = 0
        self._scale = single
        if single > 0:
            self._learn_gaps(fresh, single)
            brought = self._with_refused(fresh) if self._returned else fresh
            if brought and brought[0] - self.answered_at < single * _CLUMP_EDGES[-1]:
                self._learn_clump(brought)
        self.newest = fresh[-1]
        self._come += len(fresh)

    def refused(self, now: float) -> None:
        """Count a job that was refused at this instant (seconds).

        It is no arrival, because no batch contains it, and its client may send again at once. But
        the first after an answer, as many as callers were answered, show when these come back: a
        worker that is held for them accepts them.
        """
        self._refused += 1
        come = self._come + len(self.fresh) + self._returned
        if come < self._callers and self._clump_lasts(now):
            self._returned += 1
            self._refused_at.append(now)

    def rate(self, now: float, window: float) -> float:
        """Arrivals (jobs) per second over about the last `window` seconds."""
        if window <= 0:
            return 0.0
        since = now - self._counted_until
        return self._rate * exp(-since / window) if since else self._rate

    def hazard(self, now: float, rate: float, single: float) -> tuple[float, float]:
        """Arrivals per second to expect now, and the instant until which that estimate holds."""
        index, until = 0, inf
        for edge in _EDGES:
            end = self.newest + edge * single
            if now < end:
                until = end
                break
            index += 1
        exposure = self._gap_exposure[index]
        if rate <= 0:
            return 0.0, until
        hazard = (self._gap_counts[index] + _PRIOR_GAPS) / (exposure + _PRIOR_GAPS / rate)
        return hazard, until

    def answered(self, now: float, jobs: int, workers: int) -> None:
        """A batch of this stream was answered: as many callers as it had jobs may send again.

        Args:
            now: The present (seconds).
            jobs: How many were answered.
            workers: Workers that are alive. Clumps after their answers overlap, so each answer
                weighs `1 / workers` in a moving average.
        """
        if self._scale > 0:
            if self._refused_at:
                self._learn_clump(self._with_refused([]))
            seen = (now - self.answered_at) / self._scale
            self._clump_ends[bisect_left(_CLUMP_EDGES, seen)] += self._weight
        self._weight *= _CLUMP_GROWTH
        self.answered_at = now
        self._learn_returning(jobs)
        on_their_way = max(0.0, self._callers - self._come - self._returned)
        self._come = self._returned = self._again = 0
        self._refused_at.clear()
        self._answers += 1
        self._workers = workers
        self._mean_jobs += (jobs - self._mean_jobs) / min(self._answers, MEMORY)
        self._last_jobs += (jobs - self._last_jobs) / min(self._answers, workers)
        self._read_share()
        self._callers = min(jobs + on_their_way, max(jobs, workers * self._last_jobs))
        if self._answers % _CLUMP_ROUND == 0:
            self._read_clump()

    def shed(self, now: float, jobs: int, *, for_the_many: bool = False) -> None:
        """Count jobs that were shed or expired: their callers may send again, as after an answer.

        Args:
            now: The present (seconds).
            jobs: How many.
            for_the_many: Whether they were shed for the clump that is expected, and should come
                back with it.
        """
        if not self._clump_lasts(now):
            return
        if for_the_many:
            self._many = self._many if self._few else self.whole_clump
            self._few += jobs
        self._callers += jobs
        self._mean_jobs += jobs / min(self._answers, MEMORY)
        self._last_jobs += jobs / min(self._answers, self._workers)
        self._read_share()

    @property
    def whole_clump(self) -> float:
        """Arrivals that an answer of as many jobs as the last brings, on average."""
        return self._share * self._clump[-1] if self._clump else 0.0

    def clump_size(self, now: float) -> float:
        """Arrivals that are still expected in the clump after the last answer."""
        if not (self._clump and self._scale):
            return 0.0  # too few answers were seen to know one, or batches take no time
        since = (now - self.answered_at) / self._scale
        if since >= _CLUMP_EDGES[-1]:
            return 0.0
        whole = self.whole_clump
        if self._come - since * self._background > whole + 1.0:
            return 0.0  # all of it is here, beyond doubt
        return whole - self._come_by(since)

    def clump(self, now: float) -> Iterable[tuple[float, float]]:
        """The steps that are left of that clump: (instant, arrivals expected until then).

        Ask only while `clump_size` is positive.
        """
        answered, scale, share = self.answered_at, self._scale, self._share
        since = (now - answered) / scale
        come, first = self._come_by(since), bisect_left(_CLUMP_EDGES, since)
        ends = zip(_CLUMP_EDGES[first:], self._clump[first:], strict=True)
        return [(answered + edge * scale, share * until - come) for edge, until in ends]

    def _come_by(self, since: float) -> float:
        """Arrivals of the clump that are expected in so many times the scale after an answer."""
        index = bisect_left(_CLUMP_EDGES, since)
        end, until = _CLUMP_EDGES[index], self._clump[index]
        begin, before = (_CLUMP_EDGES[index - 1], self._clump[index - 1]) if index else (0.0, 0.0)
        return self._share * (before + (since - begin) / (end - begin) * (until - before))

    def _learn_gaps(self, fresh: list[float], single: float) -> None:
        counts, exposures = self._gap_counts, self._gap_exposure
        if len(fresh) > _SAMPLED_GAPS:
            previous, *fresh = fresh[-_SAMPLED_GAPS - 1 :]
        else:
            previous = fresh[0] if self.newest == -inf else self.newest
        gaps = []
        nearest, same = _EDGES[0] * single, _SAME_INSTANT * single
        near = near_exposure = 0.0
        for arrival in fresh:
            gap = arrival - previous
            previous = arrival
            if gap < same:
                continue
            gaps.append(gap)
            if gap <= nearest:  # as most gaps of busy streams are, and this is their hot path
                near += 1.0
                near_exposure += gap - same
                continue
            lower = same
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

    def _clump_lasts(self, now: float) -> bool:
        return now - self.answered_at < self._scale * _CLUMP_EDGES[-1]

    def _learn_returning(self, jobs: int) -> None:
        """From each batch for which a few were shed; the others forget, so that it is tried again.

        The newest counts half: that callers don't return in time is not to be asked many times.
        """
        if self._few:
            share = min(max((jobs - self._many) / self._few, 0.0), 1.0)
            self.returning += (share - self.returning) / 2.0
        else:
            self.returning += (1.0 - self.returning) / MEMORY
        self._few = 0

    def _read_share(self) -> None:
        self._share = self._last_jobs / self._mean_jobs if self._mean_jobs > 0 else 1.0

    def _with_refused(self, fresh: list[float]) -> list[float]:
        """Arrivals since the last `digest`, with refused jobs that count in the clump.

        As many arrivals, behind as many as were answered, are taken for the refused ones again.
        """
        left = max(0, int(self._callers) - self._come - self._returned)
        again = min(len(fresh[left:]), self._returned - self._again)
        self._again += again
        brought = sorted(fresh[:left] + self._refused_at + fresh[left + again :])
        self._refused_at.clear()
        return brought

    def _learn_clump(self, fresh: list[float]) -> None:
        """Count arrivals by the time since the last answer: by the step, for they are in order."""
        counts, answered, scale = self._clump_counts, self.answered_at, self._scale
        begin = bisect_left(fresh, answered)
        if begin == len(fresh):
            return
        first = last = bisect_left(_CLUMP_EDGES, (fresh[begin] - answered) / scale)
        if begin < len(fresh) - 1:
            last = bisect_left(_CLUMP_EDGES, (fresh[-1] - answered) / scale)
        for index in range(first, min(last + 1, _CLUMP_BINS)):
            end = bisect_right(fresh, answered + _CLUMP_EDGES[index] * scale, begin)
            counts[index] += (end - begin) * self._weight
            begin = end

    def _read_clump(self) -> None:
        """Cumulate the histogram; a bin was seen by all answers whose successor came after it.

        What comes at the end of the time that half of the answers saw, or of the first octave, is
        background, which is subtracted; of what comes later too little is known.
        """
        expected, last, seen_by = 0.0, 0, 0.0
        come = []
        answers = watching = sum(self._clump_ends)
        if not answers:
            return
        for index, count in enumerate(self._clump_counts):
            watching -= self._clump_ends[index] / 2  # one followed by the next in it saw half
            expected += count / watching if watching > self._weight * _NEARLY_NONE else 0.0
            watching -= self._clump_ends[index] / 2
            if watching >= answers / 2 or index <= _OCTAVE:
                last, seen_by = index, watching
            come.append(expected)
        share = self._weight / max(seen_by, self._weight * _NEARLY_NONE)
        self._background = self._rate_before(last, come, share)
        seen = zip(come[: last + 1], _CLUMP_EDGES, strict=False)
        self._clump = [until - self._background * edge for until, edge in seen]
        self._clump += [self._clump[last]] * (_CLUMP_BINS - 1 - last)
        if self._clump[last] < SURE * sqrt(come[last] * share):
            self._clump.clear()  # arrivals at random come in numbers like these
        brought = self._clump[-1] / self._mean_jobs if self._clump and self._mean_jobs > 0 else 0.0
        self.unanswered = max(0.0, 1.0 - brought)
        if self._weight > _OVERFLOW:
            self._clump_counts = [count / self._weight for count in self._clump_counts]
            self._clump_ends = [end / self._weight for end in self._clump_ends]
            self._weight = 1.0

    @staticmethod
    def _rate_before(last: int, come: Sequence[float], share: float) -> float:
        """Arrivals in a time of the scale just before the end of a step.

        They are counted over an octave; over its last steps where that is less beyond doubt, for a
        clump may reach into the octave.

        Args:
            last: The step.
            come: Arrivals expected until the end of each.
            share: The weight of one answer among those that saw the step.
        """
        least = inf
        for middle in range(last - _OCTAVE, last):
            arrivals = come[last] - come[middle]
            if middle > last - _OCTAVE:
                arrivals += SURE * sqrt(arrivals * share)
            least = min(least, arrivals / (_CLUMP_EDGES[last] - _CLUMP_EDGES[middle]))
        return least
