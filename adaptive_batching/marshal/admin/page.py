"""Pages that are whole answers: every server that can speak HTTP before them shows them alike."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from urllib.parse import parse_qsl

from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response

Page = Callable[[Request], Awaitable[Response]]
"""What answers a request for a page; it may raise."""

P = TypeVar("P")


def page_of(response: Response) -> Page:
    """A page that is always the same."""

    async def page(_request: Request) -> Response:
        return response

    return page


def find_page(pages: Mapping[str, P], path: str, method: str) -> P:
    """Which page is asked for.

    Raises:
        Rejected: There is none, or it can't be done to it what is asked for.
    """
    page = pages.get(path)
    if page is None:
        raise Rejected(404, "not_found")
    if method not in {"GET", "HEAD"}:
        raise Rejected(405, "method_not_allowed", headers={"Allow": "GET, HEAD"})
    return page


def query_of(request: Request) -> dict[str, str]:
    """What the query of a request says; of a name that comes twice, the last value."""
    return dict(parse_qsl(request.target.partition("?")[2]))
