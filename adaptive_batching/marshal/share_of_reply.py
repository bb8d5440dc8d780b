"""What one client gets of a server's answer to a batch.

Of the server's headers only what is not for somebody else, then how it came about: which batch it
was, how large, and where the time went (milliseconds).
"""

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time
from multidict import CIMultiDict

from adaptive_batching.marshal.answer import Answer, stays_open
from adaptive_batching.marshal.passed_answer import WholeAnswer
from adaptive_batching.wire.exchange import Message
from adaptive_batching.workers.upstream_messages import Reply

_SHARED = (
    ("content-type", "Content-Type"),
    ("inference-header-content-length", "Inference-Header-Content-Length"),
    ("retry-after", "Retry-After"),
    ("www-authenticate", "WWW-Authenticate"),
    ("x-usage-estimated", "X-Usage-Estimated"),
)
_HEAD = (
    "HTTP/1.1 200 OK\r\n"
    "%s"
    "Content-Length: %d\r\n"
    "X-Request-Id: %s\r\n"
    "X-Batch-Id: %d\r\n"
    "X-Batch-Size: %d\r\n"
    "Server-Timing: queue;dur=%.3f, upstream;dur=%.3f\r\n"
    "Date: %s\r\n"
    "\r\n"
)


def share_of_reply(
    reply: Reply, request: web.BaseRequest, name: str, seconds: float, *, closes: bool
) -> web.StreamResponse:
    """Make the answer for one client.

    Args:
        reply: The server's, cut for this client.
        request: The client's.
        name: What it is called.
        seconds: From the request's arrival until now.
        closes: Whether the connection is to end with it.
    """
    body = reply.message.body
    queued, taken = max(0.0, seconds - reply.seconds) * 1e3, reply.seconds * 1e3
    said = _said(reply.message)
    usual = reply.status == 200 and reply.message.status is None and _is_plain(said)
    if usual and not closes and stays_open(request):
        lines = "".join([f"{header}: {value}\r\n" for header, value in said])
        told = (name, reply.batch_id, reply.batch_size, queued, taken, rfc822_formatted_time())
        return Answer(_HEAD % (lines, len(body), *told), body)
    headers = CIMultiDict(said)
    headers["X-Request-Id"] = name
    headers["X-Batch-Id"] = str(reply.batch_id)
    headers["X-Batch-Size"] = str(reply.batch_size)
    headers["Server-Timing"] = f"queue;dur={queued:.3f}, upstream;dur={taken:.3f}"
    return WholeAnswer(reply.status, headers, body)


def _said(message: Message) -> list[tuple[str, str]]:
    about = message.headers
    if message.status is not None:
        return list(about.items())
    return [(header, about[name]) for name, header in _SHARED if name in about]


def _is_plain(said: list[tuple[str, str]]) -> bool:
    """Whether it can be written as it is: aiohttp reads the headers of servers leniently."""
    return all(value.isascii() and value.isprintable() for _, value in said)
