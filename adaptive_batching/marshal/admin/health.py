"""What orchestrators and Prometheus look at; no worker is asked."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType

from adaptive_batching.dispatcher import Forming
from adaptive_batching.errors import Draining, NoWorkers
from adaptive_batching.instrumentation.prometheus import Metrics
from adaptive_batching.marshal.admin.active_health_check import UNREACHABLE, ActiveHealthCheck
from adaptive_batching.marshal.admin.page import Page, page_of, query_of
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response

_JSON = MappingProxyType({"Content-Type": "application/json"})
_READY = Response(200, _JSON, b'{"status": "ready"}')
_HEALTHY = Response(200, _JSON, b'{"status": "ok"}')  # the loop turns: no restart would help


def health_pages(
    check_ready: Callable[[], None], deep_check: ActiveHealthCheck, metrics: Metrics
) -> dict[str, Page]:
    """`/healthz`, `/readyz`, `/readyz?deep=1`, which looks behind the queues, and `/metrics`.

    Args:
        check_ready: Raises a BatchingError if no requests should be sent here.
        deep_check: Looks whether requests would really be answered.
        metrics: What Prometheus reads, in its text format.
    """

    async def ready(request: Request) -> Response:
        check_ready()
        is_deep = query_of(request).get("deep") == "1"
        return await _deep_readiness(deep_check) if is_deep else _READY

    async def exposition(request: Request) -> Response:
        body, kind = metrics.exposition(request.headers.get("accept", ""))
        return Response(200, {"Content-Type": kind}, body)

    return {"/healthz": page_of(_HEALTHY), "/readyz": ready, "/metrics": exposition}


def check_ready(dispatchers: Mapping[str, Forming], *, draining: bool) -> None:
    """See to it that every endpoint has workers that live, and we stay.

    Raises:
        Draining: We don't stay.
        CrashLoop: The workers of an endpoint die too often.
        NoWorkers: An endpoint has no worker.
    """
    if draining:
        raise Draining("no more requests should be sent here")
    for each in dispatchers.values():
        crash_loop = each.workers.health.crash_loop
        if crash_loop is not None:
            raise crash_loop
    lacking = [path for path, each in dispatchers.items() if not each.stats().workers]
    if lacking:
        raise NoWorkers(f"no worker is alive for {', '.join(lacking)}")


async def _deep_readiness(check: ActiveHealthCheck) -> Response:
    """Whether all is well, with what was found of each."""
    endpoints = dict(await check())
    wrong = set(endpoints.values()) - {"ok", "no_example"}
    error = UNREACHABLE if wrong == {UNREACHABLE} else "example_failed"
    status, said = (503, {"error": error}) if wrong else (200, {"status": "ready"})
    body = json.dumps({**said, "endpoints": endpoints}).encode()
    return Response(status, _JSON, body)
