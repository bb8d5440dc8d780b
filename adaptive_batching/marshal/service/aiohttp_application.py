"""A service as an application of aiohttp, to be a part of another one."""

from collections.abc import AsyncIterator
from functools import partial
from time import monotonic

from aiohttp import web

from adaptive_batching.errors import BatchingError
from adaptive_batching.marshal.admin import health
from adaptive_batching.marshal.admin.active_health_check import check_of_examples
from adaptive_batching.marshal.admin.admin import Page
from adaptive_batching.marshal.admin.openapi.pages import Documents, as_pages
from adaptive_batching.marshal.http.error_responses import Rejected, refusal
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import as_aiohttp
from adaptive_batching.marshal.service.endpoint_runtimes import EndpointRuntimes
from adaptive_batching.marshal.service.mounted import answer
from adaptive_batching.marshal.service.router import ServiceRouter
from adaptive_batching.wire.error_reply import acceptable_id


def make_application(
    runtimes: EndpointRuntimes,
    documents: Documents,
    *,
    max_in_flight: int,
    body_timeout: float,
    drain_timeout: float,
) -> web.Application:
    """Make an application with the endpoints, documents, `/healthz`, `/readyz` and `/metrics`.

    Its workers start and stop with it, or with the application that it is a part of.

    Args:
        runtimes: The endpoints, not yet started.
        documents: What describes them.
        max_in_flight: Requests at a time.
        body_timeout: Seconds that a body may take to arrive.
        drain_timeout: Seconds that the last requests have at the end.
    """
    router = ServiceRouter(
        runtimes.by_path, {}, max_in_flight=max_in_flight, body_timeout=body_timeout
    )
    runtimes.metrics.held_bytes = lambda: router.held.held
    check = check_of_examples(runtimes.by_path)
    application = web.Application()
    for endpoint in runtimes.by_path.values():
        application.router.add_route("*", endpoint.path, partial(_answered, router, endpoint.path))

    async def readiness(request: web.BaseRequest) -> web.StreamResponse:
        deep = request.query.get("deep") == "1"
        health.check_ready(runtimes.dispatchers, draining=False)
        return as_aiohttp(await health.readiness(check, deep=deep))

    async def metrics(request: web.BaseRequest) -> web.StreamResponse:
        return health.exposition(runtimes.metrics, request)

    async def running(_application: web.Application) -> AsyncIterator[None]:
        async with runtimes.running(drain_timeout):
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


async def _answered(router: ServiceRouter, path: str, request: web.Request) -> web.Response:
    asked = Request(request.method, path, request.raw_headers, monotonic())
    response = await answer(router, asked, _body(request))
    return as_aiohttp(response._replace(headers={**response.headers, "X-Request-Id": asked.id}))


async def _body(request: web.Request) -> AsyncIterator[bytes]:
    try:
        while piece := await request.content.readany():
            yield piece
    except web.RequestPayloadError:
        raise Rejected(400, "malformed", closes=True) from None


async def _shown(page: Page, request: web.Request) -> web.StreamResponse:
    try:
        return await page(request)
    except BatchingError as error:
        name = acceptable_id(request.headers.get("X-Request-Id"))
        return as_aiohttp(refusal(error, name))
