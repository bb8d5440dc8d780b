"""Where viewers read: all that is known at once, or a stream of what happens."""

import asyncio
from functools import lru_cache
from importlib.resources import files
from pathlib import PurePath
from typing import cast

from aiohttp import HttpVersion11, web

from adaptive_batching.marshal.admin.admin import AdminPage
from adaptive_batching.marshal.admin.dashboard.broadcast import Broadcast
from adaptive_batching.marshal.admin.origin_check import guarded
from adaptive_batching.marshal.http.error_responses import Rejected

_EVENTS = "text/event-stream"
_RETRY = b"retry: 1000\n\n"  # milliseconds after which a browser whose stream broke comes again
PLACE = "/dashboard/"
_START = "index.html"
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def dashboard_pages(broadcast: Broadcast) -> dict[str, AdminPage]:
    """The page, and what it reads: `/debug/live` and `/debug/live/stream`."""

    async def live(_request: web.BaseRequest) -> web.Response:
        return web.Response(body=broadcast.whole(), content_type="application/json")

    async def stream(request: web.BaseRequest) -> web.StreamResponse:
        if request.version != HttpVersion11:
            raise Rejected(505, "http_version")
        if request.method == "HEAD":
            return web.Response(content_type=_EVENTS)
        broadcast.check_room()
        return EventStream(broadcast, request)

    return {
        **asset_pages(),
        "/debug/live": guarded(live),
        "/debug/live/stream": guarded(stream),
    }


class EventStream(web.StreamResponse):
    """An answer that goes on until its reader leaves, or we do."""

    def __init__(self, broadcast: Broadcast, request: web.BaseRequest) -> None:
        super().__init__(headers={"Content-Type": _EVENTS})
        self.force_close()
        self._broadcast = broadcast
        self._transport = request.transport

    async def write_eof(self, data: bytes = b"") -> None:
        """Send what happens; called by aiohttp once the head is written."""
        await self.write(_RETRY)
        await self._broadcast.show(cast("asyncio.WriteTransport", self._transport))
        await super().write_eof(data)


@lru_cache(maxsize=1)
def asset_pages() -> dict[str, AdminPage]:
    """The page at `/`, and what it consists of below `/dashboard/`; read once."""
    pages = {}
    for file in files(__package__).joinpath("static").iterdir():
        content_type = _TYPES.get(PurePath(file.name).suffix)
        if content_type is not None:
            path = "/" if file.name == _START else PLACE + file.name
            pages[path] = guarded(_page(file.read_bytes(), content_type))
    return pages


def _page(body: bytes, content_type: str) -> AdminPage:
    async def page(_request: web.BaseRequest) -> web.Response:
        return web.Response(body=body, content_type=content_type, charset="utf-8")

    return page
