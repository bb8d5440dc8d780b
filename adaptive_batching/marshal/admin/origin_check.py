"""Keeps pages that tell more than counts from other sites' web pages, whatever name they use.

A page of evil.example may have that name resolve to the loopback address and then read what it
likes from a port there, as far as its browser is concerned the same origin (DNS rebinding). It
can't choose the Host that the browser sends. Prometheus and orchestrators use names of their own,
so metrics and health are not guarded.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web

from adaptive_batching.marshal.admin.admin import AdminPage
from adaptive_batching.marshal.http.error_responses import Rejected

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def guarded(page: AdminPage) -> AdminPage:
    """A page only for requests that name this host and come from no other site."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        check_origin(request)
        response = await page(request)
        response.headers.update(HEADERS)
        return response

    return answer


def check_origin(request: web.BaseRequest) -> None:
    """See to it that a browser shows nothing of ours to pages of others.

    Raises:
        Rejected: The host is a name that anybody may have resolve to us, or a page of another
            origin asks.
    """
    host = request.headers.get("Host", "")
    if not _is_ours(host):
        raise Rejected(403, "forbidden_host")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != host:
        raise Rejected(403, "cross_origin")


def _is_ours(host: str) -> bool:
    """Whether it is an address, which no name server can turn into another one, or `localhost`."""
    try:
        name = urlsplit(f"//{host}").hostname
        return name == "localhost" or bool(ip_address(name or ""))
    except ValueError:
        return False
