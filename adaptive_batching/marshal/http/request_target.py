"""What a request is for: a path and a query, of our own server whatever else it names."""

import re

from aiohttp import hdrs, web

from adaptive_batching.marshal.http.error_responses import Rejected

_ABSOLUTE = re.compile(r"https?://[^/?]*(.*)", re.ASCII | re.IGNORECASE)


def origin_form(request: web.BaseRequest) -> str:
    """Path and query as they came; the host of an absolute URL chooses nothing (RFC 9112, 3.2.2).

    Raises:
        Rejected: It has none, as `OPTIONS *`; or it asks for a tunnel, be it to a path.
    """
    target = request.raw_path
    if request.method != hdrs.METH_CONNECT:  # of which aiohttp would make one to the server
        if target.startswith("/"):
            return target
        if absolute := _ABSOLUTE.fullmatch(target):
            within = absolute[1]
            return within if within.startswith("/") else f"/{within}"
    raise Rejected(400, "malformed", closes=True)
