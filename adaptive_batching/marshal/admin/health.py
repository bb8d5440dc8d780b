"""What orchestrators and Prometheus look at; no worker is asked."""

import json
from collections.abc import Mapping
from types import MappingProxyType

from aiohttp import web

from adaptive_batching.dispatcher import Forming
from adaptive_batching.errors import Draining, NoWorkers
from adaptive_batching.instrumentation.prometheus import Metrics
from adaptive_batching.marshal.admin.active_health_check import UNREACHABLE, ActiveHealthCheck
from adaptive_batching.marshal.http.response import Response

_JSON = MappingProxyType({"Content-Type": "application/json"})
_READY = Response(200, _JSON, b'{"status": "ready"}')


async def healthy(_request: web.BaseRequest) -> web.Response:
    """The loop turns: nothing that a restart would cure is wrong."""
    return web.json_response({"status": "ok"})


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


async def readiness(check: ActiveHealthCheck, *, deep: bool) -> Response:
    """What a program that is ready answers.

    Args:
        check: Looks whether requests would be answered.
        deep: Whether it is to look.
    """
    return await _deep_readiness(check) if deep else _READY


async def _deep_readiness(check: ActiveHealthCheck) -> Response:
    """Whether all is well, with what was found of each."""
    endpoints = dict(await check())
    wrong = set(endpoints.values()) - {"ok", "no_example"}
    error = UNREACHABLE if wrong == {UNREACHABLE} else "example_failed"
    status, said = (503, {"error": error}) if wrong else (200, {"status": "ready"})
    body = json.dumps({**said, "endpoints": endpoints}).encode()
    return Response(status, _JSON, body)


def exposition(metrics: Metrics, request: web.BaseRequest) -> web.Response:
    """All metrics in Prometheus' text format."""
    body, content_type = metrics.exposition(request.headers.get("Accept", ""))
    return web.Response(body=body, headers={"Content-Type": content_type})
