"""Everything that is known of a service's endpoints, as Prometheus metrics.

Counts that the dispatchers keep anyway are read when Prometheus asks, so they cost nothing in
between. The values of all labels come from the configuration or from closed sets.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.dispatcher.ledger import Stats
from adaptive_batching.instrumentation.histograms import BatchHistograms, Histogram
from adaptive_batching.instrumentation.upstreams import upstream_metrics
from adaptive_batching.workers.interface import Health
from adaptive_batching.workers.upstream import Upstreams

_PREFIX = "adaptive_batching"


@dataclass(frozen=True, slots=True)
class _Endpoint:
    dispatcher: Dispatcher[Any, Any]
    histograms: BatchHistograms


class Metrics(Collector):
    """The metrics of one service, in a registry of their own.

    Attributes:
        registry: Register more in it, and they are served too.
        responses: HTTP responses by endpoint and status; whoever answers counts here.
        upstream_responses: Answers of model servers by endpoint, by whether to a `batch` or to a
            request that was `passed` on, and by status.
        held_bytes: Reads how many bytes of requests are kept; None if nobody counts.
        upstreams: Model servers by endpoint.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.responses: dict[str, Mapping[int, int]] = {}
        self.upstream_responses: dict[str, Mapping[str, Mapping[int, int]]] = {}
        self.held_bytes: Callable[[], int] | None = None
        self.upstreams: dict[str, Upstreams] = {}
        self._endpoints: dict[str, _Endpoint] = {}
        self.registry.register(self)

    def watch(
        self, endpoint: str, dispatcher: Dispatcher[Any, Any], histograms: BatchHistograms
    ) -> None:
        """Report an endpoint from now on.

        Args:
            endpoint: The value of its label.
            dispatcher: Whose counts are read.
            histograms: Its observer.
        """
        self._endpoints[endpoint] = _Endpoint(dispatcher, histograms)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """What Prometheus reads, and its content type; `accept` is the header it sent."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self.registry), content_type

    def collect(self) -> Iterator[Metric]:
        """Read all counts; called by the registry."""
        statistics = {name: each.dispatcher.stats() for name, each in self._endpoints.items()}
        yield from _counters(statistics)
        yield from _gauges(statistics)
        yield from _of_each_worker(statistics)
        yield from self._histograms()
        yield from self._workers()
        answered = _counter("http_responses", "HTTP responses by status", "endpoint", "code")
        for name, responses in self.responses.items():
            for code, count in responses.items():
                answered.add_metric([name, str(code)], count)
        yield answered
        if self.upstream_responses:
            yield self._upstream()
            yield from upstream_metrics(self.upstreams)
        if self.held_bytes is not None:
            yield GaugeMetricFamily(
                f"{_PREFIX}_held_bytes", "Bytes of requests that are kept", self.held_bytes()
            )

    def _upstream(self) -> Metric:
        answers = _counter(
            "upstream_responses", "Answers of model servers by status", "endpoint", "to", "code"
        )
        for name, ways in self.upstream_responses.items():
            for way, responses in ways.items():
                for code, count in responses.items():
                    answers.add_metric([name, way, str(code)], count)
        return answers

    def forget(self, endpoint: str) -> None:
        """Report an endpoint no more."""
        known = (self._endpoints, self.responses, self.upstream_responses, self.upstreams)
        for each in known:
            each.pop(endpoint, None)

    def _histograms(self) -> Iterator[Metric]:
        yield self._histogram("batch_size", "Items in a batch", lambda each: each.size)
        yield self._histogram(
            "batch_duration_seconds", "How long a worker held a batch", lambda each: each.duration
        )
        yield self._histogram(
            "queue_wait_seconds",
            "From a request's arrival to the release of its batch",
            lambda each: each.wait,
        )
        yield self._histogram(
            "request_duration_seconds",
            "From a request's arrival to its answer, for those that ran",
            lambda each: each.latency,
        )

    def _histogram(
        self, name: str, meaning: str, which: Callable[[BatchHistograms], Histogram]
    ) -> Metric:
        family = HistogramMetricFamily(f"{_PREFIX}_{name}", meaning, labels=["endpoint"])
        for endpoint, each in self._endpoints.items():
            histogram = which(each.histograms)
            family.add_metric([endpoint], histogram.cumulative(), histogram.total)
        return family

    def _workers(self) -> Iterator[Metric]:
        workers = _gauge("workers", "Workers that are alive, and that should be", "state")
        restarts = _counter("worker_restarts", "Workers that died, started again", "endpoint")
        renewals = _counter("worker_renewals", "Workers that made way for fresh ones", "endpoint")
        looping = _gauge("crash_loop", "1 while workers die too often for an endpoint to be ready")
        for name, each in self._endpoints.items():
            health: Health = each.dispatcher.workers.health
            workers.add_metric([name, "alive"], health.alive)
            workers.add_metric([name, "missing"], health.missing)
            restarts.add_metric([name], health.restarts)
            renewals.add_metric([name], health.renewed)
            looping.add_metric([name], health.crash_loop is not None)
        yield workers
        yield restarts
        yield renewals
        yield looping


def _counters(statistics: dict[str, Stats]) -> Iterator[Metric]:
    requests = _counter("requests", "Ended requests by outcome", "endpoint", "outcome")
    batches = _counter("batches", "Ended batches by why they left", "endpoint", "reason")
    bisects = _counter(
        "bisect", "Members of failed batches by what became of them", "endpoint", "result"
    )
    for name, stats in statistics.items():
        for outcome, count in stats.requests.items():
            requests.add_metric([name, outcome.value], count)
        for reason, count in stats.releases.items():
            batches.add_metric([name, reason.value], count)
        for verdict, count in stats.verdicts.items():
            bisects.add_metric([name, verdict.value], count)
    yield requests
    yield batches
    yield bisects


def _gauges(statistics: dict[str, Stats]) -> Iterator[Metric]:
    readings: list[tuple[str, str, Callable[[Stats], float]]] = [
        ("queue_items", "Items that wait", lambda stats: stats.queued),
        ("running_batches", "Batches that run", lambda stats: stats.running),
        ("model_fixed_seconds", "Fitted seconds of any batch", lambda stats: stats.fixed),
        ("model_per_item_seconds", "Fitted seconds of each item", lambda stats: stats.per_item),
    ]
    for name, meaning, read in readings:
        gauge = _gauge(name, meaning)
        for endpoint, stats in statistics.items():
            gauge.add_metric([endpoint], read(stats))
        yield gauge


def _of_each_worker(statistics: dict[str, Stats]) -> Iterator[Metric]:
    """By index, which a worker keeps when it is started again: as many values as workers."""
    batches = _counter("worker_batches", "Batches that a worker has ended", "endpoint", "worker")
    full = _gauge("worker_full_batch_seconds", "Predicted seconds of a full batch", "worker")
    slowness = _gauge("worker_slowness", "Times as long as most workers take", "worker")
    for name, stats in statistics.items():
        for index, worker in enumerate(stats.per_worker):
            batches.add_metric([name, str(index)], worker.batches)
            full.add_metric([name, str(index)], worker.full_batch)
            slowness.add_metric([name, str(index)], worker.slowness)
    yield batches
    yield full
    yield slowness


def _counter(name: str, meaning: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"{_PREFIX}_{name}", meaning, labels=labels)


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", meaning, labels=["endpoint", *labels])
