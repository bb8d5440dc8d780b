"""Requests: how they ended, what was answered, how long it took."""

from collections import Counter
from collections.abc import Iterator, Mapping
from http import HTTPStatus

from prometheus_client.metrics_core import Metric

from adaptive_batching.instrumentation.prometheus.definition import counter, gauge, histogram
from adaptive_batching.instrumentation.prometheus.endpoints import Readings, fill, gauges

REQUESTS = counter("requests", "Ended requests by outcome", "outcome")
HTTP_RESPONSES = counter("http_responses", "HTTP responses by status", "code")
DURATION = histogram(
    "request_duration_seconds",
    "From a request's arrival to its answer, for those that ran and ended by their deadline",
)
MAX_LATENCY = gauge("max_latency_seconds", "What is promised; +Inf if nothing is")

DEFINITIONS = (REQUESTS, HTTP_RESPONSES, DURATION, MAX_LATENCY)

_KNOWN = frozenset(status.value for status in HTTPStatus)


def collect(readings: Readings, responses: Mapping[str, Mapping[int, int]]) -> Iterator[Metric]:
    """Of all endpoints; the responses are by endpoint and status."""
    requests = REQUESTS.family()
    for endpoint, reading in readings.items():
        for outcome, count in reading.stats.requests.items():
            requests.add_metric([endpoint, outcome.value], count)
    yield requests
    answered = HTTP_RESPONSES.family()
    for endpoint, by_status in responses.items():
        for code, count in by_code(by_status).items():
            answered.add_metric([endpoint, code], count)
    yield answered
    yield fill(DURATION, readings, lambda each: each.latency)
    yield from gauges(readings, {MAX_LATENCY: lambda each: each.limits.max_latency})


def by_code(responses: Mapping[int, int]) -> Mapping[str, int]:
    """By the statuses that there are; made-up ones together: a server may know a thousand."""
    codes: Counter[str] = Counter()
    for status, count in responses.items():
        codes[str(status) if status in _KNOWN else f"{status // 100}xx"] += count
    return codes
