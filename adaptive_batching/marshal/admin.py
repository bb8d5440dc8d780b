"""What operators look at, on a port of its own: clients of the data port have no part in it."""

from collections.abc import Callable, Mapping

from aiohttp import web

from adaptive_batching.marshal.error_log import ErrorLog
from adaptive_batching.marshal.protocol import check_protocol
from adaptive_batching.marshal.rejections import Rejected, rejection
from adaptive_batching.marshal.request_ids import request_id

Page = Callable[[web.BaseRequest], web.Response]


class Admin:
    """Answers with pages; an aiohttp low-level handler.

    Args:
        pages: By path.
    """

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._errors = ErrorLog()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever happens."""
        try:
            check_protocol(request)
            return find_page(self._pages, request)(request)
        except Exception as error:  # noqa: BLE001  an operator gets an answer, whatever went wrong
            name = request_id(request)
            self._errors.enter(error, name, "admin")
            return rejection(error, name)

    async def emptied(self) -> None:
        """Pages are made at once."""


def find_page(pages: Mapping[str, Page], request: web.BaseRequest) -> Page:
    """Which page is asked for.

    Raises:
        Rejected: There is none, or it can't be done to it what is asked for.
    """
    page = pages.get(request.path)
    if page is None:
        raise Rejected(404, "not_found")
    if request.method not in {"GET", "HEAD"}:
        raise Rejected(405, "method_not_allowed", headers={"Allow": "GET, HEAD"})
    return page
