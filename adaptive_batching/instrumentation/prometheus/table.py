"""Every metric: its type, source, name, meaning and labels. Alerts and dashboards rest on these."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from adaptive_batching.core import Limits
from adaptive_batching.dispatcher.stats import Stats
from adaptive_batching.instrumentation.histograms import BatchHistograms, Histogram
from adaptive_batching.instrumentation.loop_lag import LoopLag
from adaptive_batching.workers.interface import Health

T = TypeVar("T")

COUNTER, GAUGE, HISTOGRAM = CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
_STATUSES = frozenset(status.value for status in HTTPStatus)


@dataclass(frozen=True, slots=True)
class Reading:
    """One endpoint as it is now.

    Attributes:
        stats: What its dispatcher has done, and has before it.
        limits: Its `Limits`, with `max_latency`.
        health: How its workers are.
        histograms: Of its batches so far.
    """

    stats: Stats
    limits: Limits
    health: Health
    histograms: BatchHistograms


class Upstreams(Protocol):
    """The model servers of a route."""

    @property
    def servers(self) -> Mapping[str, Enum]:
        """The state of each server, by its name."""

    @property
    def verified(self) -> Any:
        """A dataclass: how many answers were compared with those to the same requests alone."""

    @property
    def kept_apart(self) -> int:
        """Batch keys whose requests go alone."""

    @property
    def unasked(self) -> Mapping[str, int]:
        """Connections that were closed because of something after an answer, by the pool."""


class Process(Protocol):
    """The whole process."""

    held_bytes: Callable[[], int]
    connections_dropped: Callable[[], int]
    log_lines_dropped: Callable[[], int]
    loop_lag: LoopLag


@dataclass(frozen=True, slots=True)
class Sources:
    """All that metrics are read from, at one moment, by endpoint; the process has none."""

    endpoints: Mapping[str, Reading]
    responses: Mapping[str, Mapping[int, int]]
    upstreams: Mapping[str, Upstreams]
    upstream_responses: Mapping[str, Mapping[str, Mapping[int, int]]]
    alone: Mapping[str, Mapping[tuple[str, str], int]]
    process: Mapping[str, Process]


Source: TypeAlias = Callable[[Sources], Mapping[str, T]]

ENDPOINTS: Source[Reading] = attrgetter("endpoints")
RESPONSES: Source[Mapping[int, int]] = attrgetter("responses")
UPSTREAMS: Source[Upstreams] = attrgetter("upstreams")
UPSTREAM_RESPONSES: Source[Mapping[str, Mapping[int, int]]] = attrgetter("upstream_responses")
ALONE: Source[Mapping[tuple[str, str], int]] = attrgetter("alone")
PROCESS: Source[Process] = attrgetter("process")


@dataclass(frozen=True, slots=True)
class Definition(Generic[T]):
    """One metric.

    Attributes:
        kind: Its type, as a family of series.
        name: As Prometheus knows it.
        meaning: In a line.
        labels: What its series differ by.
        source: What it is read from.
        read: Returns a number or a histogram, or several of them by the values of further labels;
            None where the endpoint has no such figure.
    """

    kind: Callable[..., Any]
    name: str
    meaning: str
    labels: tuple[str, ...]
    source: Source[T]
    read: Callable[[T], Any]

    def family(self) -> Any:
        """The metric without a series yet."""
        return self.kind(self.name, self.meaning, labels=self.labels)

    def collect(self, sources: Sources) -> Iterator[Metric]:
        """Yield the metric with its series of this moment, or nothing if its source is empty."""
        things = self.source(sources)
        family = self.family()
        for endpoint, thing in things.items():
            for values, value in _series(self.read(thing)):
                labels = values if self.source is PROCESS else (endpoint, *values)
                if isinstance(value, Histogram):
                    family.add_metric(labels, value.cumulative(), value.total)
                else:
                    family.add_metric(labels, value)
        if things:
            yield family


def _series(read: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield label values and figure of each series; a key may be an enum, a text or a tuple."""
    if read is None:
        return
    if not isinstance(read, Mapping):
        yield (), read
        return
    for key, figure in read.items():
        value = key.value if isinstance(key, Enum) else key
        yield value if isinstance(value, tuple) else (str(value),), figure


def _define(
    kind: Callable[..., Any],
    source: Source[T],
    name: str,
    meaning: str,
    read: Callable[[T], Any],
    *labels: str,
) -> Definition[T]:
    name = f"adaptive_batching_{name}{'_total' if kind is CounterMetricFamily else ''}"
    first = () if source is PROCESS else ("endpoint",)
    return Definition(kind, name, meaning, (*first, *labels), source, read)


def _codes(responses: Mapping[int, int]) -> Mapping[str, int]:
    """Count by status; statuses that HTTP does not know are counted together, as `9xx`."""
    codes: Counter[str] = Counter()
    for status, count in responses.items():
        codes[str(status) if status in _STATUSES else f"{status // 100}xx"] += count
    return codes


def _upstream_codes(
    responses: Mapping[str, Mapping[int, int]],
) -> Mapping[tuple[str, str], int]:
    return {
        (to, code): count
        for to, by_status in responses.items()
        for code, count in _codes(by_status).items()
    }


def _states(upstreams: Upstreams) -> Mapping[tuple[str, str], bool]:
    return {
        (server, state.value): state is now
        for server, now in upstreams.servers.items()
        for state in type(now)
    }


def _workers(reading: Reading, figure: str) -> Mapping[int, float]:
    """Return a figure of each worker by its index, which a restarted worker keeps."""
    return {n: getattr(each, figure) for n, each in enumerate(reading.stats.per_worker)}


def _if_costs(reading: Reading, figure: T) -> T | None:
    """Return a figure about costs, where items don't cost the same."""
    return None if reading.limits.costs is None else figure


def _version() -> str:
    try:
        return version("adaptive-batching")
    except PackageNotFoundError:  # run from its sources
        return "unknown"


# fmt: off
DEFINITIONS: tuple[Definition[Any], ...] = (
    _define(COUNTER, ENDPOINTS, "requests", "Requests that have ended, by outcome",
        lambda it: it.stats.requests, "outcome"),
    _define(COUNTER, RESPONSES, "http_responses", "HTTP responses by status", _codes, "code"),
    _define(HISTOGRAM, ENDPOINTS, "request_duration_seconds",
        "Time from arrival to answer of requests that ran and ended by their deadline",
        lambda it: it.histograms.latency),
    _define(GAUGE, ENDPOINTS, "max_latency_seconds",
        "The endpoint's max_latency; +Inf if it has none",
        lambda it: it.limits.max_latency),

    _define(GAUGE, ENDPOINTS, "queue_items", "Items that wait", lambda it: it.stats.queued),
    _define(GAUGE, ENDPOINTS, "queue_requests", "Requests that wait",
        lambda it: it.stats.queued_requests),
    _define(GAUGE, ENDPOINTS, "max_queue_items", "Items that may wait",
        lambda it: it.limits.max_queue),
    _define(GAUGE, ENDPOINTS, "queue_oldest_seconds",
        "Time that the oldest waiting request has waited; 0 if none waits",
        lambda it: it.stats.oldest),
    _define(GAUGE, ENDPOINTS, "queue_predicted_seconds",
        "Predicted time until all waiting items have run on the workers that are alive",
        lambda it: it.stats.queued_seconds),
    _define(HISTOGRAM, ENDPOINTS, "queue_wait_seconds",
        "Time from a request's arrival to the release of its batch",
        lambda it: it.histograms.wait),

    _define(COUNTER, ENDPOINTS, "batches",
        "Batches that have ended, by the reason of their release",
        lambda it: it.stats.releases, "reason"),
    _define(HISTOGRAM, ENDPOINTS, "batch_size", "Items in a batch", lambda it: it.histograms.size),
    _define(COUNTER, ENDPOINTS, "batch_padded_items",
        "Items that models ran, with those that filled batches up to an allowed size",
        lambda it: it.histograms.padded_items if it.limits.sizes else None),
    _define(GAUGE, ENDPOINTS, "max_batch_size", "Items that a batch may have at most",
        lambda it: it.limits.max_batch_size),
    _define(HISTOGRAM, ENDPOINTS, "batch_duration_seconds",
        "Time from a batch's release to its results",
        lambda it: it.histograms.duration),
    _define(COUNTER, ENDPOINTS, "batch_prediction_error_seconds",
        "Sum of the differences between predicted and measured durations of batches",
        lambda it: it.histograms.error),
    _define(HISTOGRAM, ENDPOINTS, "batch_cost", "Cost of a batch with its padding",
        lambda it: _if_costs(it, it.histograms.cost)),
    _define(COUNTER, ENDPOINTS, "batch_own_cost",
        "Sum of what requests would have cost alone; the rest of batch_cost_sum is padding",
        lambda it: _if_costs(it, it.histograms.own_cost)),
    _define(GAUGE, ENDPOINTS, "max_batch_cost",
        "Cost that a batch may have at most; +Inf if it has no limit",
        lambda it: it.limits.costs and it.limits.costs.max_batch_cost),
    _define(GAUGE, ENDPOINTS, "running_batches",
        "Batches that run now", lambda it: it.stats.running),
    _define(COUNTER, ENDPOINTS, "bisect", "Members of failed batches, by result",
        lambda it: it.stats.verdicts, "result"),

    _define(GAUGE, ENDPOINTS, "model_fixed_seconds",
        "Learned duration of a batch without its items",
        lambda it: it.stats.fixed),
    _define(GAUGE, ENDPOINTS, "model_per_item_seconds", "Learned duration that each item adds",
        lambda it: it.stats.per_item),
    _define(GAUGE, ENDPOINTS, "model_per_cost_seconds",
        "Learned duration that each unit of cost adds; the duration of an item includes it",
        lambda it: _if_costs(it, it.stats.per_cost)),
    _define(GAUGE, ENDPOINTS, "model_error_ratio",
        "Mean difference between batches and the learned line, relative",
        lambda it: it.stats.error),
    _define(GAUGE, ENDPOINTS, "saturation_ratio",
        "Offered items, as a share of what the workers can do in full batches",
        lambda it: it.stats.saturation),

    _define(GAUGE, ENDPOINTS, "workers", "Workers that are alive, and workers that are missing",
        lambda it: {"alive": it.health.alive, "missing": it.health.missing}, "state"),
    _define(GAUGE, ENDPOINTS, "permits",
        "Batches that may run at a time: those that run, and those that could",
        lambda it: {"taken": it.stats.running, "idle": it.stats.idle}, "state"),
    _define(COUNTER, ENDPOINTS, "worker_restarts", "Workers that died and were started again",
        lambda it: it.health.restarts),
    _define(COUNTER, ENDPOINTS, "worker_renewals",
        "Workers that were replaced by fresh ones on purpose",
        lambda it: it.health.renewed),
    _define(GAUGE, ENDPOINTS, "crash_loop",
        "1 while workers die so often that the endpoint is not ready",
        lambda it: it.health.crash_loop is not None),
    _define(COUNTER, ENDPOINTS, "worker_batches", "Batches that the worker has run",
        lambda it: _workers(it, "batches"), "worker"),
    _define(GAUGE, ENDPOINTS, "worker_full_batch_seconds",
        "Predicted duration of a full batch on the worker",
        lambda it: _workers(it, "full_batch"), "worker"),
    _define(GAUGE, ENDPOINTS, "worker_slowness",
        "Duration of the worker's batches relative to those of most workers that are alive",
        lambda it: _workers(it, "slowness"), "worker"),

    _define(COUNTER, UPSTREAM_RESPONSES, "upstream_responses",
        "Answers of model servers, by status",
        _upstream_codes, "to", "code"),
    _define(GAUGE, UPSTREAMS, "upstream_state", "1 for the state that the server is in",
        _states, "upstream", "state"),
    _define(COUNTER, UPSTREAMS, "upstream_verified",
        "Requests that were chosen to be sent alone as well, by result",
        lambda it: asdict(it.verified), "result"),
    _define(GAUGE, UPSTREAMS, "upstream_keys_apart",
        "Batch keys that are sent alone because answers to batches could not be split, or differed",
        lambda it: it.kept_apart),
    _define(COUNTER, ALONE, "upstream_alone",
        "Requests that had a batch to themselves, by reason, and by header if that is the reason",
        dict, "reason", "header"),
    _define(COUNTER, UPSTREAMS, "upstream_unasked",
        "Connections that were closed because a server sent more than its answer",
        lambda it: it.unasked, "to"),

    _define(GAUGE, PROCESS, "build_info", "1; the label has the running version",
        lambda it: {_version(): 1}, "version"),
    _define(GAUGE, PROCESS, "held_bytes", "Bytes of requests in memory",
        lambda it: it.held_bytes()),
    _define(COUNTER, PROCESS, "connections_dropped",
        "Connections that were closed at once, above the limit",
        lambda it: it.connections_dropped()),
    _define(COUNTER, PROCESS, "log_lines_dropped",
        "Log lines that were dropped because the output was too slow",
        lambda it: it.log_lines_dropped()),
    _define(HISTOGRAM, PROCESS, "event_loop_lag_seconds",
        "Lateness of timers, measured ten times a second",
        lambda it: it.loop_lag.seconds),
)
# fmt: on
"""All metrics."""
