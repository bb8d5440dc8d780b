"""All metrics of one service or sidecar."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from adaptive_batching.dispatcher import Forming
from adaptive_batching.instrumentation.histograms import BatchHistograms
from adaptive_batching.instrumentation.loop_lag import LoopLag
from adaptive_batching.instrumentation.prometheus.table import (
    DEFINITIONS,
    Reading,
    Sources,
    Upstreams,
)


class Metrics(Collector):
    """The metrics of one service, in a registry of their own.

    Attributes:
        registry: Register more in it, and they are served too.
        responses: HTTP responses by endpoint and status; counted where they are sent.
        upstream_responses: Answers of model servers by endpoint, by whether to a `batch` or to a
            request that was `passed` on, and by status.
        alone: Requests that had a batch to themselves, by endpoint, and by the reason and the
            pattern of the header if it is one.
        held_bytes: Reads how many bytes of requests are kept.
        connections_dropped: Reads how many connections of clients were one too many.
        log_lines_dropped: Reads how many lines of the log were not written in time.
        upstreams: Model servers by endpoint.
        loop_lag: How late timers are, once it is started.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.responses: dict[str, Mapping[int, int]] = {}
        self.upstream_responses: dict[str, Mapping[str, Mapping[int, int]]] = {}
        self.alone: dict[str, Mapping[tuple[str, str], int]] = {}
        self.held_bytes: Callable[[], int] = int
        self.connections_dropped: Callable[[], int] = int
        self.log_lines_dropped: Callable[[], int] = int
        self.upstreams: dict[str, Upstreams] = {}
        self.loop_lag = LoopLag()
        self._endpoints: dict[str, tuple[Forming, BatchHistograms]] = {}
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def watch(self, endpoint: str, dispatcher: Forming, histograms: BatchHistograms) -> None:
        """Report the metrics of an endpoint from now on.

        Args:
            endpoint: The value of its label.
            dispatcher: Whose counts are read.
            histograms: Its observer.
        """
        self._endpoints[endpoint] = (dispatcher, histograms)

    def forget(self, endpoint: str) -> None:
        """Stop reporting the metrics of an endpoint."""
        responses = (self.responses, self.upstream_responses)
        for each in (self._endpoints, *responses, self.upstreams, self.alone):
            each.pop(endpoint, None)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return the text for Prometheus and its content type, chosen by its `Accept` header."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self.registry), content_type

    def collect(self) -> Iterator[Metric]:
        """Read all sources and yield their metrics; called by the registry."""
        readings = {
            name: Reading(each.stats(), each.limits, each.workers.health, histograms)
            for name, (each, histograms) in self._endpoints.items()
        }
        responses = self.responses, self.upstreams, self.upstream_responses, self.alone
        sources = Sources(readings, *responses, {"": self})
        return (metric for each in DEFINITIONS for metric in each.collect(sources))
