"""How many callers come back after an answer, and when."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence, Sized
from math import inf, sqrt

from adaptive_batching.core.estimators.evidence import MEMORY, SURE

_OCTAVE = 3  # steps
_OCTAVES = 6  # below the duration of a batch of one: finer steps change nothing; two above it
_EDGES: tuple[float, ...] = tuple(
    2.0 ** (step / _OCTAVE) for step in range(-_OCTAVES * _OCTAVE, 2 * _OCTAVE + 1)
)
_BINS = len(_EDGES)
_GROWTH = 1 / (1 - 1 / MEMORY)  # an answer weighs that much more than the one before it
_ROUND_OF_ANSWERS = 8  # answers between two looks at the histogram
_NEARLY_NONE = 1e-3  # answers: to divide by less says nothing
_OVERFLOW = 1e12  # weights are scaled down long before floats run out


class Clump:
    """What comes after an answer, and because of it; O(1) per arrival.

    Callers that send again when answered arrive in a clump just after a batch completes, when
    nothing has arrived for milliseconds and every other view of arrivals says "quiet".

    Args:
        fresh: Arrivals since the last `digest`, to be looked at.
    """

    __slots__ = (
        "_again", "_answers", "_background", "_callers", "_come", "_counts", "_ends", "_expected",
        "_few", "_fresh", "_last_jobs", "_many", "_mean_jobs", "_refused_at", "_returned", "_scale",
        "_share", "_weight", "_workers", "answered_at", "returning", "unanswered",
    )  # fmt: skip

    def __init__(self, fresh: Sized) -> None:
        self._fresh = fresh
        self.unanswered = 1.0
        """Part of the arrivals that no answer brings. Callers who return together leave short gaps
        behind, as if more of them were on their way: so much of the hazard is not theirs."""
        self.answered_at = -inf
        """When a batch was last answered (seconds)."""
        self._come = 0  # arrivals since
        self._answers = 0
        self._workers = 1
        self._callers = 0.0  # that may send again since then: of jobs answered, shed or expired
        self._refused_at: list[float] = []  # when refused jobs came that count in the clump
        self._returned = 0  # such jobs since the answer
        self._again = 0  # arrivals since the answer that are taken for the same callers
        self.returning = 1.0
        """Part of the few jobs, shed for the many, whose callers came back with the many."""
        self._few = 0  # such jobs since the answer
        self._many = 0.0  # arrivals that were expected besides
        self._scale = 0.0  # seconds that a batch of one takes
        self._background = 0.0  # arrivals in that time that belong to no clump
        self._weight = 1.0
        self._counts = [0.0] * _BINS  # arrivals by time since the last answer
        self._ends = [0.0] * (_BINS + 1)  # how long after it the next answer came
        self._expected: list[float] = []  # arrivals expected from a mean answer to each bin's end
        self._mean_jobs = 0.0  # of an answer
        self._last_jobs = 0.0  # of the last answers, each of which weighs 1 / workers
        self._share = 1.0  # the second of the first

    def __repr__(self) -> str:
        return f"<Clump {self.whole:.3g} of {self._last_jobs:.3g} jobs>"

    def digest(self, fresh: list[float], single: float) -> None:
        """Count arrivals since the last call by the step of the time since the last answer.

        Args:
            fresh: Their times (seconds), in order.
            single: Predicted duration of a batch of one (seconds): the scale of the steps.
        """
        self._scale = single
        brought = self._with_refused(fresh) if self._returned else fresh
        self._come += len(fresh)
        counts, answered = self._counts, self.answered_at
        if not (single > 0 and brought and brought[0] - answered < single * _EDGES[-1]):
            return  # as `_lasts` has it: calls add up on the hot path
        begin = bisect_left(brought, answered)
        if begin == len(brought):
            return
        first = last = bisect_left(_EDGES, (brought[begin] - answered) / single)
        if begin < len(brought) - 1:
            last = bisect_left(_EDGES, (brought[-1] - answered) / single)
        for index in range(first, min(last + 1, _BINS)):
            end = bisect_right(brought, answered + _EDGES[index] * single, begin)
            counts[index] += (end - begin) * self._weight
            begin = end

    def refused(self, now: float) -> None:
        """Count a job that was refused at this instant (seconds), if it belongs to the clump.

        It is no arrival, but the first after an answer, as many as callers were answered, show when
        these come back: a worker that is held for them accepts them.
        """
        come = self._come + len(self._fresh) + self._returned
        if come < self._callers and self._lasts(now):
            self._returned += 1
            self._refused_at.append(now)

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
                self.digest([], self._scale)
            seen = (now - self.answered_at) / self._scale
            self._ends[bisect_left(_EDGES, seen)] += self._weight
        self._weight *= _GROWTH
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
        if self._answers % _ROUND_OF_ANSWERS == 0:
            self._read()

    def shed(self, now: float, jobs: int, *, for_the_many: bool = False) -> None:
        """Count jobs that were shed or expired: their callers may send again, as after an answer.

        Args:
            now: The present (seconds).
            jobs: How many.
            for_the_many: Whether they were shed for the clump that is expected, and should come
                back with it.
        """
        if not self._lasts(now):
            return
        if for_the_many:
            if not self._few:
                self._many = self.whole
            self._few += jobs
        self._callers += jobs
        self._mean_jobs += jobs / min(self._answers, MEMORY)
        self._last_jobs += jobs / min(self._answers, self._workers)
        self._read_share()

    @property
    def whole(self) -> float:
        """Arrivals that an answer of as many jobs as the last brings, on average."""
        return self._share * self._expected[-1] if self._expected else 0.0

    def size(self, now: float) -> float:
        """Arrivals that are still expected in the clump after the last answer."""
        if not (self._expected and self._scale):
            return 0.0  # too few answers were seen to know one, or batches take no time
        since = (now - self.answered_at) / self._scale
        if since >= _EDGES[-1]:
            return 0.0
        whole, come = self.whole, self._come + len(self._fresh) - since * self._background
        if come > min(self._callers - 0.5, whole + 1.0):
            return 0.0  # all that may send again have, to half a job; or more than do on average
        return whole - self._come_by(since)

    def steps(self, now: float) -> Iterable[tuple[float, float]]:
        """The steps that are left of that clump: (instant, arrivals expected until then).

        Ask only while `size` is positive.
        """
        answered, scale, share = self.answered_at, self._scale, self._share
        since = (now - answered) / scale
        come, first = self._come_by(since), bisect_left(_EDGES, since)
        ends = zip(_EDGES[first:], self._expected[first:], strict=True)
        return [(answered + edge * scale, share * until - come) for edge, until in ends]

    def _come_by(self, since: float) -> float:
        """Arrivals of the clump that are expected in so many times the scale after an answer."""
        index = bisect_left(_EDGES, since)
        end, until = _EDGES[index], self._expected[index]
        begin, before = (_EDGES[index - 1], self._expected[index - 1]) if index else (0.0, 0.0)
        return self._share * (before + (since - begin) / (end - begin) * (until - before))

    def _lasts(self, now: float) -> bool:
        return now - self.answered_at < self._scale * _EDGES[-1]

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

    def _read(self) -> None:
        """Cumulate the histogram; a bin was seen by all answers whose successor came after it.

        What comes at the end of the time that half of the answers saw, or of the first octave, is
        background, which is subtracted; of what comes later too little is known.
        """
        expected, last, seen_by = 0.0, 0, 0.0
        come = []
        answers = watching = sum(self._ends)
        if not answers:
            return
        for index, count in enumerate(self._counts):
            watching -= self._ends[index] / 2  # one followed by the next in it saw half
            expected += count / watching if watching > self._weight * _NEARLY_NONE else 0.0
            watching -= self._ends[index] / 2
            if watching >= answers / 2 or index <= _OCTAVE:
                last, seen_by = index, watching
            come.append(expected)
        share = self._weight / max(seen_by, self._weight * _NEARLY_NONE)
        self._background = self._rate_before(last, come, share)
        seen = zip(come[: last + 1], _EDGES, strict=False)
        self._expected = [until - self._background * edge for until, edge in seen]
        self._expected += [self._expected[last]] * (_BINS - 1 - last)
        if self._expected[last] < SURE * sqrt(come[last] * share):
            self._expected.clear()  # arrivals at random come in numbers like these
        brought = (
            self._expected[-1] / self._mean_jobs if self._expected and self._mean_jobs > 0 else 0.0
        )
        self.unanswered = max(0.0, 1.0 - brought)
        if self._weight > _OVERFLOW:
            self._counts = [count / self._weight for count in self._counts]
            self._ends = [end / self._weight for end in self._ends]
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
            least = min(least, arrivals / (_EDGES[last] - _EDGES[middle]))
        return least
