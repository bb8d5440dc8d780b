"""What waits: how many, how long already, and how much work it is."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from adaptive_batching.instrumentation.prometheus.definition import gauge, histogram
from adaptive_batching.instrumentation.prometheus.endpoints import Readings, fill, gauges

ITEMS = gauge("queue_items", "Items that wait")
REQUESTS = gauge("queue_requests", "Requests that wait")
MAX_ITEMS = gauge("max_queue_items", "Items that may wait")
OLDEST = gauge("queue_oldest_seconds", "How long the oldest request has waited; 0 if none waits")
PREDICTED = gauge(
    "queue_predicted_seconds", "Predicted time until all that waits has run, on the workers alive"
)
WAIT = histogram("queue_wait_seconds", "From a request's arrival to the release of its batch")

DEFINITIONS = (ITEMS, REQUESTS, MAX_ITEMS, OLDEST, PREDICTED, WAIT)


def collect(readings: Readings) -> Iterator[Metric]:
    """Of all endpoints."""
    yield from gauges(
        readings,
        {
            ITEMS: lambda each: each.stats.queued,
            REQUESTS: lambda each: each.stats.queued_requests,
            MAX_ITEMS: lambda each: each.limits.max_queue,
            OLDEST: lambda each: each.stats.oldest,
            PREDICTED: lambda each: each.stats.queued_seconds,
        },
    )
    yield fill(WAIT, readings, lambda each: each.wait)
