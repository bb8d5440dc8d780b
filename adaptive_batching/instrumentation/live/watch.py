"""Looks at one dispatcher again and again, and keeps what changed in between."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from math import inf, isfinite
from operator import sub
from typing import NamedTuple

from adaptive_batching.core import JobOutcome
from adaptive_batching.dispatcher import Forming, Stats, WorkerStats
from adaptive_batching.instrumentation.histograms import BatchHistograms, quantile
from adaptive_batching.instrumentation.live.messages import (
    DIGITS,
    EndedBatch,
    EndpointView,
    WorkerView,
)
from adaptive_batching.instrumentation.live.second import Second
from adaptive_batching.instrumentation.live.slo import Slo
from adaptive_batching.instrumentation.recent_batches import Ran, RecentBatches
from adaptive_batching.instrumentation.size_advice import SizeAdvice

SECONDS_KEPT = 120
_LATELY = 10  # looks: single seconds have too few requests for a 99th percentile

Percentiles = tuple[float | None, float | None, float | None]


class Watched(NamedTuple):
    """Where batches are formed, to be watched.

    Attributes:
        label: What it is called in metrics.
        dispatcher: Forms them.
        histograms: Its observer.
        latest: Another one.
        advice: Another one.
    """

    label: str
    dispatcher: Forming
    histograms: BatchHistograms
    latest: RecentBatches
    advice: SizeAdvice


class _Look(NamedTuple):
    """What was counted at an instant."""

    now: float
    stats: Stats
    latencies: tuple[int, ...]
    held: float  # seconds for which workers have held batches
    cost: float
    own_cost: float
    items: float  # of batches that ended
    padded_items: int  # that were run for them


class Watch:
    """The last seconds of one dispatcher.

    Counts that are kept anyway are read, so that nothing is to be done for each request.

    Args:
        watched: What it looks at.
        now: The present (seconds).
    """

    def __init__(self, watched: Watched, now: float) -> None:
        self._watched = watched
        self._looks: deque[_Look] = deque([self._seen(now)], maxlen=_LATELY + 1)
        self._seconds: deque[Second] = deque(maxlen=SECONDS_KEPT)
        self._shown = 0  # batches that the last look has seen

    def look(self, now: float, most: int) -> EndpointView:
        """Keep what has changed since the last time, and return it.

        Args:
            now: The present (seconds).
            most: Batches to be told of.
        """
        before, after = self._looks[-1], self._seen(now)
        self._looks.append(after)
        fresh = []
        if now > before.now:
            fresh.append(_second(before, after, self._percentiles(before), self._work(before)))
        self._seconds.extend(fresh)
        latest = self._watched.latest
        new = latest.newest(most, since=self._shown)
        self._shown = latest.count
        return self._view(fresh, new)

    def whole(self, most: int) -> EndpointView:
        """All that is kept, as it was at the last look."""
        latest = self._watched.latest
        missed = latest.count - self._shown
        return self._view(self._seconds, latest.newest(most + missed)[missed:])

    def _seen(self, now: float) -> _Look:
        watched = self._watched
        stats, histograms = watched.dispatcher.stats(), watched.histograms
        begun = [each.busy_since for each in stats.per_worker if each.busy_since is not None]
        held = histograms.duration.total + sum(now - since for since in begun)
        return _Look(
            now,
            stats,
            tuple(histograms.latency.counts),
            held,
            histograms.cost.total,
            histograms.own_cost,
            histograms.size.total,
            histograms.padded_items,
        )

    def _work(self, since: _Look) -> tuple[float, float]:
        """What batches cost, and what it would have been without padding.

        Where all items cost the same, and the model runs a few sizes, each costs one unit.
        """
        now, limits = self._looks[-1], self._watched.dispatcher.limits
        if limits.sizes and limits.costs is None:
            return now.padded_items - since.padded_items, now.items - since.items
        return now.cost - since.cost, now.own_cost - since.own_cost

    def _percentiles(self, since: _Look) -> Percentiles:
        """Percentiles of the answers; an accepted request without one counts with `max_latency`."""
        steps, now = self._watched.histograms.latency.steps, self._looks[-1]
        counts = list(map(sub, now.latencies, since.latencies))
        promised = self._watched.dispatcher.limits.max_latency
        if promised < inf:
            expired = JobOutcome.EXPIRED
            late = now.stats.requests[expired] - since.stats.requests[expired]
            counts[bisect_left(steps, promised)] += max(0, late)
        values = [quantile(steps, counts, share) for share in (0.5, 0.9, 0.99)]
        median, most, nearly_all = (
            None if value is None else round(min(value, promised), DIGITS) for value in values
        )
        return median, most, nearly_all

    def _view(self, seconds: Iterable[Second], newest: Sequence[Ran]) -> EndpointView:
        stats, limits = self._looks[-1].stats, self._watched.dispatcher.limits
        return EndpointView(
            name=self._watched.label,
            max_batch_size=limits.max_batch_size,
            max_latency=limits.max_latency if isfinite(limits.max_latency) else None,
            max_queue=limits.max_queue,
            promise=Slo.of(list(self._seconds)),
            requests={outcome.value: count for outcome, count in stats.requests.items()},
            releases={reason.value: count for reason, count in stats.releases.items() if count},
            batches=stats.batches,
            items=stats.items,
            fixed=round(stats.fixed, DIGITS + 3),
            per_item=round(stats.per_item, DIGITS + 3),
            per_cost=round(stats.per_cost, DIGITS + 6),
            mean_cost=round(stats.mean_cost, 3),
            lately=self._percentiles(self._looks[0]),
            queued=stats.queued,
            in_flight=_in_flight(stats),
            queued_seconds=round(stats.queued_seconds, DIGITS),
            saturation=round(stats.saturation, 4),
            error=round(stats.error, 4),
            advice=self._watched.advice.sentence(limits),
            workers=list(map(_worker, stats.per_worker)),
            seconds=list(seconds),
            ran=list(map(_run, reversed(newest))),
        )


def _second(
    before: _Look, after: _Look, percentiles: Percentiles, work: tuple[float, float]
) -> Second:
    earlier, later = before.stats, after.stats
    ended = {each: max(0, later.requests[each] - earlier.requests[each]) for each in JobOutcome}
    # What expires in a running batch has ended, and is in flight until the batch has ended.
    arrived = sum(ended.values()) + _in_flight(later) - _in_flight(earlier)
    return Second(
        round(after.now, DIGITS),
        round(after.now - before.now, DIGITS),
        max(0, arrived),
        ended[JobOutcome.DONE],
        ended[JobOutcome.FAILED],
        ended[JobOutcome.EXPIRED],
        ended[JobOutcome.SHED],
        ended[JobOutcome.QUEUE_FULL],
        ended[JobOutcome.CANCELLED],
        max(0, later.batches - earlier.batches),
        max(0, later.items - earlier.items),
        *percentiles,
        later.queued,
        later.running,
        later.workers,
        round(max(0.0, after.held - before.held), DIGITS),
        {
            reason.value: count - earlier.releases[reason]
            for reason, count in later.releases.items()
            if count > earlier.releases[reason]
        },
        *(round(each, 3) for each in work),
    )


def _in_flight(stats: Stats) -> int:
    return stats.queued_requests + stats.running_requests


def _run(ran: Ran) -> EndedBatch:
    record = ran.record
    return EndedBatch(
        ran.number,
        round(record.released, DIGITS),
        round(record.finished, DIGITS),
        record.size,
        record.worker,
        record.reason.value,
        record.outcome.value,
        round(record.predicted, DIGITS),
        round(record.cost, 3),
    )


def _worker(stats: WorkerStats) -> WorkerView:
    since = stats.busy_since
    slowness = round(stats.slowness, 3)
    return WorkerView(stats.alive, stats.batches, slowness, _rounded(since), stats.name)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, DIGITS)
