"""What is counted while batches run: three histograms, filled once a batch."""

from bisect import bisect_left
from collections.abc import Sequence

from adaptive_batching.core import Batch, BatchRecord, Outcome

_SECONDS = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)


class Histogram:
    """Counts values by the first bound that they do not exceed.

    Prometheus' own takes a lock and a clock for each value; this one is read at scrape time.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = _SECONDS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Pairs of bound and count of the values up to it, as Prometheus wants them."""
        below = 0.0
        pairs = []
        names = [*map(str, self.bounds), "+Inf"]
        for name, count in zip(names, self.counts, strict=True):
            below += count
            pairs.append((name, below))
        return pairs


class BatchHistograms:
    """Observes the batches of one dispatcher.

    Args:
        max_batch_size: Items; the sizes' last bound.

    Attributes:
        size: Items in a batch.
        duration: Seconds that a worker held a batch.
        wait: Seconds from a request's arrival to the release of its batch.
        latency: Seconds from a request's arrival to its answer.
        error: Seconds by which batches differed from what was predicted of them, summed.
    """

    def __init__(self, max_batch_size: int) -> None:
        self.size = Histogram(_powers_of_two(max_batch_size))
        self.duration = Histogram()
        self.wait = Histogram()
        self.latency = Histogram()
        self.error = 0.0

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """Count a batch and its members, but for those who wait again for another."""
        self.size.observe(record.size)
        self.duration.observe(record.duration)
        released, finished = record.released, record.finished
        ended = batch.jobs
        if record.outcome is Outcome.DONE:
            if record.predicted:  # there was one
                self.error += abs(record.duration - record.predicted)
        else:
            ended = [job for job in ended if not job.waiting]
        for job in ended:
            self.wait.observe(released - job.arrived)
            self.latency.observe(finished - job.arrived)


def _powers_of_two(largest: int) -> list[int]:
    """1, 2, 4 up to `largest`, which is always the last, and may be the only one."""
    bounds = [1]
    while bounds[-1] < largest:
        bounds.append(min(2 * bounds[-1], largest))
    return bounds
