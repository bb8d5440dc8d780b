"""What is known of the model servers behind a sidecar, as Prometheus metrics."""

from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from adaptive_batching.core.standings import State
from adaptive_batching.workers.upstream import Upstreams

_PREFIX = "adaptive_batching_upstream"


def upstream_metrics(upstreams: Mapping[str, Upstreams]) -> Iterator[Metric]:
    """Servers by what becomes of them, samples by how they ended, keys that are kept apart.

    Args:
        upstreams: By endpoint.
    """
    state = GaugeMetricFamily(
        f"{_PREFIX}_state",
        "1 for what becomes of a server",
        labels=["endpoint", "upstream", "state"],
    )
    verified = CounterMetricFamily(
        f"{_PREFIX}_verified",
        "Requests that were sent alone as well",
        labels=["endpoint", "result"],
    )
    apart = GaugeMetricFamily(
        f"{_PREFIX}_keys_apart",
        "Batch keys whose answers could not be shared out, or differed from those alone",
        labels=["endpoint"],
    )
    for endpoint, each in upstreams.items():
        for name, now in each.servers.items():
            for one in State:
                state.add_metric([endpoint, name, one.value], one is now)
        counts = each.verified
        verified.add_metric([endpoint, "same"], counts.same)
        verified.add_metric([endpoint, "different"], counts.different)
        verified.add_metric([endpoint, "unanswered"], counts.unanswered)
        apart.add_metric([endpoint], each.kept_apart)
    yield state
    yield verified
    yield apart
