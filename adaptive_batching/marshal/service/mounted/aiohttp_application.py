"""A service as an application of aiohttp, to be a part of another one."""

from collections.abc import AsyncIterator
from functools import partial

from aiohttp import web
from msgspec.structs import replace

from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.request import Request, request_of
from adaptive_batching.marshal.http.response import as_aiohttp
from adaptive_batching.marshal.service.description import ServiceDescription
from adaptive_batching.marshal.service.mounted.answer import answer, show
from adaptive_batching.marshal.service.mounted.mounted_service import MountedService
from adaptive_batching.marshal.service.router import ServiceRouter


def make_application(description: ServiceDescription) -> web.Application:
    """Make an application with the endpoints, documents, `/healthz`, `/readyz` and `/metrics`.

    Its workers start and stop with it, or with the application that it is a part of.

    Raises:
        TypeError: Two declared types have one name.
    """
    mounted = MountedService(description)
    router = mounted.router
    application = web.Application()
    for path in mounted.runtimes.by_path:
        application.router.add_route("*", path, partial(_answered, router, path))
    for path in router.pages:
        application.router.add_route("*", path, partial(_shown, router, path))

    async def running(_application: web.Application) -> AsyncIterator[None]:
        async with mounted.running_workers():
            yield

    application.cleanup_ctx.append(running)
    return application


async def _answered(router: ServiceRouter, path: str, request: web.Request) -> web.Response:
    asked = _asked(path, request)
    response = await answer(router, asked, _body(request))
    return as_aiohttp(replace(response, headers={**response.headers, "X-Request-Id": asked.id}))


async def _body(request: web.Request) -> AsyncIterator[bytes]:
    try:
        while piece := await request.content.readany():
            yield piece
    except web.RequestPayloadError:
        raise Rejected(400, "malformed", closes=True) from None


async def _shown(router: ServiceRouter, path: str, request: web.Request) -> web.Response:
    return as_aiohttp(await show(router, _asked(path, request)))


def _asked(path: str, request: web.Request) -> Request:
    """A request as if the application were at the root; aiohttp may have it below another."""
    return request_of(request, f"{path}?{request.rel_url.raw_query_string}")
