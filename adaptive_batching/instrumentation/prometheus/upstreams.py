"""What is known of the model servers behind a sidecar."""

from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import Metric

from adaptive_batching.core.standings import State
from adaptive_batching.instrumentation.prometheus.definition import counter, gauge
from adaptive_batching.instrumentation.prometheus.requests import by_code
from adaptive_batching.workers.upstream import Upstreams

RESPONSES = counter("upstream_responses", "Answers of model servers by status", "to", "code")
STATE = gauge("upstream_state", "1 for what becomes of a server", "upstream", "state")
VERIFIED = counter("upstream_verified", "Requests that were to be sent alone as well", "result")
KEYS_APART = gauge(
    "upstream_keys_apart",
    "Batch keys whose answers could not be shared out, or differed from those alone",
)

DEFINITIONS = (RESPONSES, STATE, VERIFIED, KEYS_APART)


def collect(
    upstreams: Mapping[str, Upstreams],
    responses: Mapping[str, Mapping[str, Mapping[int, int]]],
) -> Iterator[Metric]:
    """Servers by what becomes of them, samples by how they ended, keys that are kept apart.

    Args:
        upstreams: By endpoint.
        responses: By endpoint, by whether to a `batch` or to a request that was `passed` on, and
            by status.
    """
    answers = RESPONSES.family()
    for endpoint, ways in responses.items():
        for way, by_status in ways.items():
            for code, count in by_code(by_status).items():
                answers.add_metric([endpoint, way, code], count)
    yield answers
    state, verified, apart = STATE.family(), VERIFIED.family(), KEYS_APART.family()
    for endpoint, each in upstreams.items():
        for name, now in each.servers.items():
            for one in State:
                state.add_metric([endpoint, name, one.value], one is now)
        counts = each.verified
        verified.add_metric([endpoint, "same"], counts.same)
        verified.add_metric([endpoint, "different"], counts.different)
        verified.add_metric([endpoint, "unanswered"], counts.unanswered)
        verified.add_metric([endpoint, "skipped"], counts.skipped)
        apart.add_metric([endpoint], each.kept_apart)
    yield state
    yield verified
    yield apart
