"""Which pages and actions the admin port has, that of a service as well as that of a sidecar.

A new page is a line in `make_admin`.
"""

from typing import TYPE_CHECKING

from aiohttp import web

from adaptive_batching.errors import BatchingError
from adaptive_batching.marshal.admin.admin import Admin, as_admin_page
from adaptive_batching.marshal.admin.dashboard.stream import dashboard_pages
from adaptive_batching.marshal.admin.origin_check import guarded
from adaptive_batching.marshal.admin.recent_batches import recent_batches

if TYPE_CHECKING:  # a program makes its pages
    from adaptive_batching.marshal.admin.operated import Operated


def make_admin(program: "Operated") -> Admin:
    """What answers on the admin port of a program."""

    async def batches(request: web.BaseRequest) -> web.Response:
        return recent_batches(program.live.watched, request)

    async def reload(_request: web.BaseRequest) -> web.Response:
        return await _reloaded(program)

    return Admin(
        {
            **{path: as_admin_page(page) for path, page in program.health.items()},
            "/debug/batches": guarded(batches),
            **dashboard_pages(program.broadcast),
        },
        actions={"/reload": reload},
    )


async def _reloaded(program: "Operated") -> web.Response:
    """Refresh it; an operator, unlike a client, is told what was wrong."""
    try:
        await program.refresh()
    except BatchingError as error:
        answer = {"error": error.code, "message": str(error)}
        return web.json_response(answer, status=error.status)
    return web.json_response({"status": "reloaded"})
