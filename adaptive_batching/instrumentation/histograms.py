"""What is counted while batches run: histograms, filled once a batch."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import accumulate

from adaptive_batching.core import Batch, BatchRecord, Outcome

_SECONDS = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
_COSTS = tuple(4**power for power in range(15))  # in any unit: up to 256 Mi of it


class Histogram:
    """Counts values by the first bound that they do not exceed.

    Prometheus' own takes a lock and a clock for each value; this one is read at scrape time.

    Args:
        bounds: Those that Prometheus is told.
        steps: In how many each interval is divided for percentiles: with 8, neighbours differ by
            a tenth.

    Attributes:
        bounds: Those that Prometheus is told.
        steps: The bounds that are counted by.
        counts: Values up to each step and above the one before; then those above all.
        total: The sum of all values.
    """

    __slots__ = ("bounds", "counts", "steps", "total")

    def __init__(self, bounds: Sequence[float] = _SECONDS, *, steps: int = 1) -> None:
        self.bounds = tuple(bounds)
        self.steps = _divided(self.bounds, steps)
        self.counts = [0] * (len(self.steps) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.steps, value)] += 1
        self.total += value

    def observe_all(self, values: Collection[float]) -> None:
        """Count several."""
        steps, counts = self.steps, self.counts
        for value in values:
            counts[bisect_left(steps, value)] += 1
        self.total += sum(values)

    def cumulative(self) -> list[tuple[str, float]]:
        """Pairs of bound and count of the values up to it, as Prometheus wants them."""
        width = len(self.steps) // len(self.bounds)
        up_to = list(accumulate(self.counts))
        pairs = zip(self.bounds, up_to[width - 1 :: width], strict=False)
        return [*((str(bound), float(count)) for bound, count in pairs), ("+Inf", up_to[-1])]


class BatchHistograms:
    """Observes the batches of one dispatcher.

    Args:
        max_batch_size: Items; the sizes' last bound.

    Attributes:
        size: Items in a batch.
        duration: Seconds that a worker held a batch.
        wait: Seconds from a request's arrival to the release of its batch.
        latency: Seconds from a request's arrival to its answer, of those that had one by their
            deadline.
        error: Seconds by which batches differed from what was predicted of them, summed.
        padded_items: Items that were run, with those that filled batches up to an allowed size.
        cost: What a batch cost with its padding, where items don't cost the same.
        own_cost: What requests would have cost in batches of their own, summed.
    """

    def __init__(self, max_batch_size: int) -> None:
        self.size = Histogram(_powers_of_two(max_batch_size))
        self.duration = Histogram()
        self.wait = Histogram()
        self.latency = Histogram(steps=8)
        self.error = 0.0
        self.padded_items = 0
        self.cost = Histogram(_COSTS)
        self.own_cost = 0.0

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """Count a batch and its members, but for those that wait again for another."""
        released, finished, duration = record.released, record.finished, record.duration
        self.size.observe(record.size)
        self.duration.observe(duration)
        self.padded_items += record.padded_size
        self.cost.observe(record.cost)
        self.own_cost += record.own_cost
        ended = batch.jobs
        if record.outcome is Outcome.DONE:
            if record.predicted:  # there was one
                self.error += abs(duration - record.predicted)
        else:
            ended = [job for job in ended if not job.waiting]
        waits, latencies = [], []
        for job in ended:
            arrived = job.arrived
            waits.append(released - arrived)
            if finished <= job.deadline:
                latencies.append(finished - arrived)
        self.wait.observe_all(waits)
        self.latency.observe_all(latencies)


def quantile(steps: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """The value that a share of all does not exceed; None if there are none.

    Within a step values are taken to be spread evenly; those above the last one to be there.

    Args:
        steps: Of a histogram.
        counts: Its counts, or what they have grown by.
        share: 0.99 for the 99th percentile.
    """
    wanted = share * sum(counts)
    if not wanted:
        return None
    below, lower = 0, 0.0
    for step, count in zip(steps, counts, strict=False):
        if count and below + count >= wanted:
            return lower + (step - lower) * (wanted - below) / count
        below += count
        lower = step
    return lower


def _divided(bounds: Sequence[float], steps: int) -> tuple[float, ...]:
    """The bounds, and between each two of them others at equal ratios."""
    divided = []
    below = bounds[0] / 10
    for bound in bounds:
        ratio = (bound / below) ** (1 / steps)
        divided += [below * ratio**step for step in range(1, steps)]
        divided.append(bound)
        below = bound
    return tuple(divided)


def _powers_of_two(largest: int) -> list[int]:
    """1, 2, 4 up to `largest`, which is always the last, and may be the only one."""
    bounds = [1]
    while bounds[-1] < largest:
        bounds.append(min(2 * bounds[-1], largest))
    return bounds
