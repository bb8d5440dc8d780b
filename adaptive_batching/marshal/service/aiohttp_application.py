"""A service as an application of aiohttp, to be a part of another one."""

from collections.abc import AsyncIterator
from functools import partial

from aiohttp import web

from adaptive_batching.errors import BatchingError
from adaptive_batching.marshal.admin import health
from adaptive_batching.marshal.admin.active_health_check import check_of_examples
from adaptive_batching.marshal.admin.admin import Page
from adaptive_batching.marshal.admin.openapi.pages import Documents, as_pages
from adaptive_batching.marshal.http.error_responses import as_response, rejection
from adaptive_batching.marshal.http.request_ids import request_id
from adaptive_batching.marshal.service.endpoint_runtimes import Lanes
from adaptive_batching.marshal.service.router import Marshal


def make_application(
    lanes: Lanes,
    documents: Documents,
    *,
    max_in_flight: int,
    body_timeout: float,
    drain_timeout: float,
) -> web.Application:
    """Make an application with the endpoints, documents, `/healthz`, `/readyz` and `/metrics`.

    Its workers start and stop with it, or with the application that it is a part of.

    Args:
        lanes: The endpoints, not yet started.
        documents: What describes them.
        max_in_flight: Requests at a time.
        body_timeout: Seconds that a body may take to arrive.
        drain_timeout: Seconds that the last requests have at the end.
    """
    marshal = Marshal(
        {}, {}, max_in_flight=max_in_flight, body_timeout=body_timeout, own_server=False
    )
    lanes.metrics.held_bytes = lambda: marshal.door.held_bytes
    check = check_of_examples(lanes.by_path)
    application = web.Application()
    for lane in lanes.by_path.values():
        application.router.add_route("*", lane.path, partial(marshal.answer, lane=lane))

    async def readiness(request: web.BaseRequest) -> web.StreamResponse:
        deep = request.query.get("deep") == "1"
        health.check_ready(lanes.dispatchers, draining=False)
        return as_response(await health.readiness(check, deep=deep))

    async def metrics(request: web.BaseRequest) -> web.StreamResponse:
        return health.exposition(lanes.metrics, request)

    async def running(_application: web.Application) -> AsyncIterator[None]:
        async with lanes.running(drain_timeout):
            yield

    shown: dict[str, Page] = {
        "/healthz": health.healthy,
        "/readyz": readiness,
        "/metrics": metrics,
        **as_pages(documents),
    }
    for path, page in shown.items():
        application.router.add_get(path, partial(_shown, page))
    application.cleanup_ctx.append(running)
    return application


async def _shown(page: Page, request: web.Request) -> web.StreamResponse:
    try:
        return await page(request)
    except BatchingError as error:
        return rejection(error, request_id(request))
