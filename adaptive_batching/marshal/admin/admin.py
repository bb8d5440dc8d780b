"""What operators look at and do, on a port of its own: clients have no part in it."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from aiohttp import web

from adaptive_batching.marshal.admin.page import Page, find_page
from adaptive_batching.marshal.http.error_log import ErrorLog
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.handler import Keep, Respond
from adaptive_batching.marshal.http.request import Request, request_of
from adaptive_batching.marshal.http.response import Response, as_aiohttp
from adaptive_batching.wire.error_reply import acceptable_id, new_request_id

AdminPage = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""What answers a request for a page that may go on, or for something to be done; it may raise."""

_NONE: Mapping[str, AdminPage] = MappingProxyType({})


class Admin:
    """Answers with pages, all by aiohttp; a `Handler`.

    Args:
        pages: What can be looked at, by path: GET and HEAD.
        actions: What can be done, by path: POST, from anything but a web page of another site.
    """

    def __init__(
        self, pages: Mapping[str, AdminPage], actions: Mapping[str, AdminPage] = _NONE
    ) -> None:
        self._pages = pages
        self._actions = actions
        self._errors = ErrorLog()

    draining = tunnels = False

    def keep(self, request: Request) -> Keep | None:
        """Keep no body: pages are passed on to aiohttp."""
        return None

    def hold(self, request: Request, size: int) -> None:
        """Hold nothing."""

    def drop(self, request: Request) -> None:
        """Hold nothing."""

    def begin(self, request: Request, respond: Respond) -> None:
        """Answer nothing in place."""

    def refusal(self, request: Request | None, error: Exception) -> Response:
        """The answer to what is no HTTP."""
        return self._errors.answer(error, new_request_id(), "admin")

    async def pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever happens."""
        try:
            action = self._actions.get(request.path)
            if action is None:
                return await find_page(self._pages, request.path, request.method)(request)
            _check_action(request)
            return await action(request)
        except ConnectionError:
            raise  # the answer has begun, and its reader has gone
        except Exception as error:  # noqa: BLE001  an operator gets an answer, whatever went wrong
            name = acceptable_id(request.headers.get("X-Request-Id"))
            return as_aiohttp(self._errors.answer(error, name, "admin"))

    async def emptied(self) -> None:
        """No request's work waits for an operator."""


def as_admin_page(page: Page) -> AdminPage:
    """A page that is a whole answer, as aiohttp shows it."""

    async def shown(request: web.BaseRequest) -> web.StreamResponse:
        return as_aiohttp(await page(request_of(request)))

    return shown


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
