"""What one client gets of a server's answer to a batch.

Of the server's headers only what is not for somebody else, then how it came about: which batch it
was, how large, and where the time went (milliseconds).
"""

from collections.abc import Mapping

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time
from multidict import CIMultiDict

from adaptive_batching.errors import UpstreamBroken
from adaptive_batching.marshal.http.answer import Answer, as_sent, is_one_line, stays_open
from adaptive_batching.marshal.sidecar.proxy_response import WholeAnswer
from adaptive_batching.marshal.sidecar.upstream.messages import Reply
from adaptive_batching.wire.exchange import Message

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


class SharesOfReplies:
    """Makes the answers for single clients.

    The headers of the members of a batch are one object as a rule, whose lines are made once.
    """

    def __init__(self) -> None:
        self._headers: Mapping[str, str] = {}
        self._lines: str | None = ""

    def share(
        self, reply: Reply, request: web.BaseRequest, name: str, seconds: float, *, closes: bool
    ) -> web.StreamResponse:
        """Make the answer for one client.

        Args:
            reply: The server's, cut for this client.
            request: The client's.
            name: What it is called.
            seconds: From the request's arrival until now.
            closes: Whether the connection is to end with it.

        Raises:
            UpstreamBroken: A header of the server's is none.
        """
        head = None if closes or not stays_open(request) else self._head(reply, name, seconds)
        if head is not None:
            return Answer(head, reply.message.body)
        return WholeAnswer(reply.status, _headers(reply, name, seconds), reply.message.body)

    def sent(self, reply: Reply, name: str, seconds: float, *, closes: bool) -> bytes:
        """The same as it goes over a connection of HTTP/1.1."""
        body, head = reply.message.body, None if closes else self._head(reply, name, seconds)
        if head is not None:
            return head.encode("ascii") + body
        headers = _headers(reply, name, seconds)
        headers.popall("Content-Length", None)
        return as_sent(reply.status, headers, body, closes=closes)

    def _head(self, reply: Reply, name: str, seconds: float) -> str | None:
        """How a usual answer begins; None if this is not one."""
        message = reply.message
        if reply.status != 200 or message.status is not None:
            return None
        lines = self._lines_of(message.headers)
        if lines is None:
            return None
        about = (lines, len(message.body), name, reply.batch_id, reply.batch_size)
        return _HEAD % (*about, *_times(reply, seconds), rfc822_formatted_time())

    def _lines_of(self, headers: Mapping[str, str]) -> str | None:
        """What is said of the server's headers; None if it can't be written as it is."""
        if headers is not self._headers:
            self._headers = headers
            said = _shared(headers)
            lines = "".join([f"{header}: {value}\r\n" for header, value in said])
            self._lines = lines if _is_plain(said) else None
        return self._lines


def _headers(reply: Reply, name: str, seconds: float) -> CIMultiDict[str]:
    said = _said(reply.message)
    for header, value in said:
        if not is_one_line(header + value):
            raise UpstreamBroken(f"expected a header in one line, got {header!r}: {value!r}")
    headers = CIMultiDict(said)
    headers["X-Request-Id"] = name
    headers["X-Batch-Id"] = str(reply.batch_id)
    headers["X-Batch-Size"] = str(reply.batch_size)
    queued, taken = _times(reply, seconds)
    headers["Server-Timing"] = f"queue;dur={queued:.3f}, upstream;dur={taken:.3f}"
    return headers


def _times(reply: Reply, seconds: float) -> tuple[float, float]:
    """Milliseconds that a request waited, and that the server took."""
    return max(0.0, seconds - reply.seconds) * 1e3, reply.seconds * 1e3


def _said(message: Message) -> list[tuple[str, str]]:
    whole = message.status is not None
    return list(message.headers.items()) if whole else _shared(message.headers)


def _shared(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(header, headers[name]) for name, header in _SHARED if name in headers]


def _is_plain(said: list[tuple[str, str]]) -> bool:
    """Whether it can be written as it is: aiohttp reads the headers of servers leniently."""
    return all(value.isascii() and value.isprintable() for _, value in said)
