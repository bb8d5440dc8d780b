"""Where a service describes itself: `/openapi.json` for programs, `/docs` for people."""

from collections.abc import Collection, Sequence

import msgspec
from aiohttp import web

from adaptive_batching.marshal.admin import Page
from adaptive_batching.marshal.api.html import SECURITY_POLICY, render
from adaptive_batching.marshal.api.openapi import Described, describe

_DOCUMENT, _READABLE = "/openapi.json", "/docs"


def make_api_pages(
    name: str, endpoints: Sequence[Described], others: Collection[str]
) -> dict[str, Page]:
    """The two pages, by path, made once.

    Args:
        name: Of the service.
        endpoints: What it serves.
        others: The paths of its other pages.

    Raises:
        TypeError: Two declared types have one name.
    """
    document = describe(name, endpoints, {*others, _DOCUMENT, _READABLE})
    as_json = msgspec.json.encode(document)
    as_html = render(document).encode()
    headers = {"Content-Security-Policy": SECURITY_POLICY, "X-Content-Type-Options": "nosniff"}

    async def openapi(_request: web.BaseRequest) -> web.Response:
        return web.Response(body=as_json, content_type="application/json")

    async def docs(_request: web.BaseRequest) -> web.Response:
        return web.Response(
            body=as_html, content_type="text/html", charset="utf-8", headers=headers
        )

    return {_DOCUMENT: openapi, _READABLE: docs}
