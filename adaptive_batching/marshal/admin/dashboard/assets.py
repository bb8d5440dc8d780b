"""The files of the page, as they are in the package."""

from functools import lru_cache
from importlib.resources import files
from pathlib import PurePath

from aiohttp import web

from adaptive_batching.marshal.admin.admin import Page
from adaptive_batching.marshal.admin.origin_check import guarded

PLACE = "/dashboard/"
_START = "index.html"
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@lru_cache(maxsize=1)
def asset_pages() -> dict[str, Page]:
    """The page at `/`, and what it consists of below `/dashboard/`; read once."""
    pages = {}
    for file in files(__package__).joinpath("static").iterdir():
        content_type = _TYPES.get(PurePath(file.name).suffix)
        if content_type is not None:
            path = "/" if file.name == _START else PLACE + file.name
            pages[path] = guarded(_page(file.read_bytes(), content_type))
    return pages


def _page(body: bytes, content_type: str) -> Page:
    async def page(_request: web.BaseRequest) -> web.Response:
        return web.Response(body=body, content_type=content_type, charset="utf-8")

    return page
