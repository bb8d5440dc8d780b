"""What operators look at and do, on a port of its own: clients have no part in it."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from aiohttp import web

from adaptive_batching.marshal.http.error_log import ErrorLog
from adaptive_batching.marshal.http.error_responses import Rejected, rejection
from adaptive_batching.marshal.http.protocol import check_protocol
from adaptive_batching.marshal.http.request_ids import request_id

Page = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""What answers a request for a page, or for something to be done; it may raise."""

_NONE: Mapping[str, Page] = MappingProxyType({})


class Admin:
    """Answers with pages; an aiohttp low-level handler.

    Args:
        pages: What can be looked at, by path: GET and HEAD.
        actions: What can be done, by path: POST, from anything but a web page of somebody else's.
    """

    def __init__(self, pages: Mapping[str, Page], actions: Mapping[str, Page] = _NONE) -> None:
        self._pages = pages
        self._actions = actions
        self._errors = ErrorLog()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever happens."""
        try:
            check_protocol(request)
            action = self._actions.get(request.path)
            if action is None:
                return await find_page(self._pages, request)(request)
            _check_action(request)
            return await action(request)
        except ConnectionError:
            raise  # the answer has begun, and its reader has gone
        except Exception as error:  # noqa: BLE001  an operator gets an answer, whatever went wrong
            name = request_id(request)
            self._errors.enter(error, name, "admin")
            return rejection(error, name)

    async def emptied(self) -> None:
        """Nobody's work waits for an operator."""


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


def _check_action(request: web.BaseRequest) -> None:
    """See to it that an action was asked for by a program.

    Browsers say of every POST which page it comes from; a page that an operator happens to read
    must not act here in their name (CSRF).

    Raises:
        Rejected: It was not.
    """
    if request.method != "POST":
        raise Rejected(405, "method_not_allowed", headers={"Allow": "POST"})
    if "Origin" in request.headers:
        raise Rejected(403, "cross_origin")
