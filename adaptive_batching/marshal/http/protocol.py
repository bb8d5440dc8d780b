"""Which HTTP we speak."""

from aiohttp import HttpVersion10, HttpVersion11, web

from adaptive_batching.marshal.http.error_responses import Rejected


def check_protocol(request: web.BaseRequest) -> None:
    """Refuse what aiohttp's parser lets through but we do not speak.

    Raises:
        Rejected: A version other than 1.0 and 1.1, or chunks in 1.0, or a fragment, at which
            not everybody ends a path.
    """
    if "#" in request.raw_path:
        raise Rejected(400, "malformed", closes=True)
    version = request.version
    if version == HttpVersion11:
        return
    if version != HttpVersion10:
        raise Rejected(505, "http_version", closes=True)
    if "Transfer-Encoding" in request.headers:
        raise Rejected(400, "malformed", closes=True)
