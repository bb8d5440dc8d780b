"""What a metric is called and what it means: an interface, on which alerts and dashboards rest."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

F = TypeVar("F", CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily)

_PREFIX = "adaptive_batching"


@dataclass(frozen=True, slots=True)
class Definition(Generic[F]):
    """One metric.

    Attributes:
        kind: What Prometheus takes it for.
        name: As Prometheus knows it.
        meaning: In a line.
        labels: What its series differ by.
    """

    kind: type[F]
    name: str
    meaning: str
    labels: tuple[str, ...]

    def family(self) -> F:
        """Its series of this moment, to be filled in."""
        return self.kind(self.name, self.meaning, labels=self.labels)


def counter(name: str, meaning: str, *labels: str) -> Definition[CounterMetricFamily]:
    """What only grows, by endpoint; its name gets the suffix that counters have."""
    return Definition(CounterMetricFamily, _name(f"{name}_total"), meaning, ("endpoint", *labels))


def gauge(name: str, meaning: str, *labels: str) -> Definition[GaugeMetricFamily]:
    """What goes up and down, by endpoint."""
    return Definition(GaugeMetricFamily, _name(name), meaning, ("endpoint", *labels))


def histogram(name: str, meaning: str) -> Definition[HistogramMetricFamily]:
    """How often which values came, by endpoint."""
    return Definition(HistogramMetricFamily, _name(name), meaning, ("endpoint",))


def of_program(definition: Definition[F], *labels: str) -> Definition[F]:
    """The same for the program as a whole: not by endpoint, but by these labels if any."""
    return Definition(definition.kind, definition.name, definition.meaning, labels)


def _name(name: str) -> str:
    return f"{_PREFIX}_{name}"
