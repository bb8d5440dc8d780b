"""Statistics of any number of requests in the memory of a few thousand."""

from collections import Counter
from collections.abc import Sequence
from math import inf, log

import numpy as np

from adaptive_batching.core import Batch, BatchRecord, Job, JobOutcome
from adaptive_batching.simulation.study.report import SHED, Row

_BLOCK = 16_384  # latencies that are counted at a time
_SHORTEST = 1e-7  # seconds; what is shorter counts as nothing
_STEP = log(1.002)  # of the histogram: its percentiles are right to 0.1 %
_BINS = int(log(1e14) / _STEP) + 1  # up to 1e7 seconds


class Tally:
    """A collector that counts instead of keeping records; percentiles are right to 0.1 %.

    Args:
        warmup: What arrived or left before this instant is not counted (seconds).
    """

    def __init__(self, warmup: float = 0.0) -> None:
        self._warmup = warmup
        self._seen = 0
        self._ended: Counter[JobOutcome] = Counter()
        self._on_time = 0
        self._latency = 0.0  # of all answered together (seconds)
        self._histogram = np.zeros(_BINS, np.int64)
        self._arrived: list[float] = []
        self._finished: list[float] = []
        self._due: list[float] = []
        self._last = -inf
        self._first = inf
        self._batches = 0
        self._items = 0
        self._released = -inf
        self._gaps = 0
        self._gap = 0.0
        self._gap_squares = 0.0

    def batch_released(self, batch: Batch) -> None:
        """Note the gap since the one before."""
        now = batch.released
        if now < self._warmup:
            return
        if self._released > -inf:
            gap = now - self._released
            self._gaps += 1
            self._gap += gap
            self._gap_squares += gap * gap
        self._released = now

    def batch_ended(self, record: BatchRecord) -> None:
        """Count its items."""
        if record.released >= self._warmup:
            self._batches += 1
            self._items += record.size

    def jobs_ended(self, jobs: Sequence[Job], now: float, outcome: JobOutcome) -> None:
        """Count them; latencies are taken in blocks, because a call of numpy costs as much."""
        self._seen += len(jobs)
        if outcome is not JobOutcome.DONE:
            self._ended[outcome] += sum(job.arrived >= self._warmup for job in jobs)
            return
        self._arrived.extend([job.arrived for job in jobs])
        self._finished.extend([now] * len(jobs))
        self._due.extend([job.deadline for job in jobs])
        if len(self._arrived) >= _BLOCK:
            self._count()

    def row(self, policy: str, workers: int, elapsed: float = 0.0) -> Row:
        """What it came to, as `report.summarize` makes it of records."""
        self._count()
        answered = self._ended[JobOutcome.DONE]
        requests = self._ended.total()
        shed = sum(self._ended[outcome] for outcome in SHED)
        span = self._last - self._first
        return Row(
            policy=policy,
            workers=workers,
            requests=requests,
            on_time=self._on_time,
            late=answered - self._on_time,
            shed=shed,
            failed=requests - answered - shed,
            goodput=self._on_time / requests if requests else None,
            throughput=answered / span if span > 0 else None,
            mean_latency=self._latency / answered if answered else None,
            p50_latency=self._percentile(0.5),
            p99_latency=self._percentile(0.99),
            mean_batch_size=self._items / self._batches if self._batches else None,
            batches=self._batches,
            release_gap_cv=self._gap_cv(),
            jobs_per_second=self._seen / elapsed if elapsed > 0 else None,
        )

    def _count(self) -> None:
        columns = np.array([self._arrived, self._finished, self._due])
        for column in (self._arrived, self._finished, self._due):
            column.clear()
        arrived, finished, due = columns[:, columns[0] >= self._warmup]
        if not len(arrived):
            return
        latencies = finished - arrived
        self._first = min(self._first, float(arrived.min()))
        self._last = max(self._last, float(finished.max()))
        self._ended[JobOutcome.DONE] += len(latencies)
        self._on_time += int((finished <= due).sum())
        self._latency += float(latencies.sum())
        steps = np.log(np.maximum(latencies, _SHORTEST) / _SHORTEST) / _STEP
        bins = np.minimum(steps.astype(np.int64), _BINS - 1)
        self._histogram += np.bincount(bins, minlength=_BINS)

    def _percentile(self, share: float) -> float | None:
        cumulated = np.cumsum(self._histogram)
        if not cumulated[-1]:
            return None
        index = int(np.searchsorted(cumulated, share * cumulated[-1]))
        return float(_SHORTEST * np.exp((index + 0.5) * _STEP)) if index else 0.0

    def _gap_cv(self) -> float | None:
        mean = self._gap / self._gaps if self._gaps else 0.0
        if not mean > 0:
            return None
        variance = max(0.0, self._gap_squares / self._gaps - mean**2)
        return float(variance**0.5) / mean
