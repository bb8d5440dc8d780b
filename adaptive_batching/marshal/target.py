"""What a request is for: a path and a query, of our own server whatever else it names."""

from aiohttp import web
from yarl import URL

from adaptive_batching.marshal.rejections import Rejected


def origin_form(request: web.BaseRequest) -> str:
    """Path and query as they came; the host of an absolute URL chooses nothing (RFC 9112, 3.2.2).

    Raises:
        Rejected: It has none: `OPTIONS *`, `CONNECT host:port`.
    """
    target = request.raw_path
    if target.startswith("/"):
        return target
    if target.lower().startswith(("http://", "https://")):
        return URL(target, encoded=True).raw_path_qs
    raise Rejected(400, "malformed", closes=True)
