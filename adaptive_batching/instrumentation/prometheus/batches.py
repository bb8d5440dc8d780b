"""Batches: how large, how long, why they left, and what became of members of those that failed."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from adaptive_batching.instrumentation.prometheus.definition import counter, gauge, histogram
from adaptive_batching.instrumentation.prometheus.endpoints import Readings, fill, gauges

BATCHES = counter("batches", "Ended batches by why they left", "reason")
SIZE = histogram("batch_size", "Items in a batch")
MAX_SIZE = gauge("max_batch_size", "Items that a batch may have")
DURATION = histogram("batch_duration_seconds", "How long a worker held a batch")
ERROR = counter(
    "batch_prediction_error_seconds", "How far batches were from their prediction, summed up"
)
RUNNING = gauge("running_batches", "Batches that run")
BISECT = counter("bisect", "Members of failed batches by what became of them", "result")

DEFINITIONS = (BATCHES, SIZE, MAX_SIZE, DURATION, ERROR, RUNNING, BISECT)


def collect(readings: Readings) -> Iterator[Metric]:
    """Of all endpoints."""
    batches, error, bisects = BATCHES.family(), ERROR.family(), BISECT.family()
    for endpoint, reading in readings.items():
        for reason, count in reading.stats.releases.items():
            batches.add_metric([endpoint, reason.value], count)
        error.add_metric([endpoint], reading.histograms.error)
        for verdict, count in reading.stats.verdicts.items():
            bisects.add_metric([endpoint, verdict.value], count)
    yield batches
    yield fill(SIZE, readings, lambda each: each.size)
    yield from gauges(
        readings,
        {
            MAX_SIZE: lambda each: each.limits.max_batch_size,
            RUNNING: lambda each: each.stats.running,
        },
    )
    yield fill(DURATION, readings, lambda each: each.duration)
    yield error
    yield bisects
