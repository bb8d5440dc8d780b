"""What is believed of the model, and how much of what the workers can do is asked of them."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from adaptive_batching.instrumentation.prometheus.definition import gauge
from adaptive_batching.instrumentation.prometheus.endpoints import Readings, gauges

FIXED = gauge("model_fixed_seconds", "Fitted seconds of any batch")
PER_ITEM = gauge("model_per_item_seconds", "Fitted seconds of each item")
ERROR = gauge("model_error_ratio", "How far batches are from the fitted line, in the mean")
SATURATION = gauge(
    "saturation_ratio", "Share of what the workers can do, in full batches, that comes in"
)

DEFINITIONS = (FIXED, PER_ITEM, ERROR, SATURATION)


def collect(readings: Readings) -> Iterator[Metric]:
    """Of all endpoints."""
    yield from gauges(
        readings,
        {
            FIXED: lambda each: each.stats.fixed,
            PER_ITEM: lambda each: each.stats.per_item,
            ERROR: lambda each: each.stats.error,
            SATURATION: lambda each: each.stats.saturation,
        },
    )
