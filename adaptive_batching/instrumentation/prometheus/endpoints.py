"""What there is to read of one endpoint, at one moment."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from adaptive_batching.core import Limits
from adaptive_batching.dispatcher import Forming
from adaptive_batching.dispatcher.stats import Stats
from adaptive_batching.instrumentation.histograms import BatchHistograms, Histogram
from adaptive_batching.instrumentation.prometheus.definition import Definition
from adaptive_batching.workers.interface import Health


@dataclass(frozen=True, slots=True)
class Reading:
    """One endpoint as it is now.

    Attributes:
        stats: What its dispatcher has done, and has before it.
        limits: What it promises.
        health: How its workers are.
        histograms: Of its batches so far.
    """

    stats: Stats
    limits: Limits
    health: Health
    histograms: BatchHistograms

    @classmethod
    def of(cls, dispatcher: Forming, histograms: BatchHistograms) -> Self:
        """Of a dispatcher and its observer."""
        return cls(dispatcher.stats(), dispatcher.limits, dispatcher.workers.health, histograms)


Readings = Mapping[str, Reading]
"""By the value of the label `endpoint`."""


def gauges(
    readings: Readings,
    read: Mapping[Definition[GaugeMetricFamily], Callable[[Reading], float]],
) -> Iterator[Metric]:
    """Gauges that have no label but the endpoint."""
    for definition, value in read.items():
        family = definition.family()
        for endpoint, reading in readings.items():
            family.add_metric([endpoint], value(reading))
        yield family


def fill(
    definition: Definition[Any], readings: Readings, which: Callable[[BatchHistograms], Histogram]
) -> Metric:
    """A histogram of each endpoint."""
    family = definition.family()
    for endpoint, reading in readings.items():
        histogram = which(reading.histograms)
        family.add_metric([endpoint], histogram.cumulative(), histogram.total)
    metric: Metric = family
    return metric
