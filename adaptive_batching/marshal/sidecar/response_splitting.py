"""What one client gets of a server's answer to a batch.

Of the server's headers only what is not for somebody else, then how it came about: which batch it
was, how large, and where the time went (milliseconds).
"""

from collections.abc import Mapping

from multidict import CIMultiDict

from adaptive_batching.errors import UpstreamBroken
from adaptive_batching.marshal.http.response import Response, is_one_line
from adaptive_batching.marshal.sidecar.upstream.messages import Reply
from adaptive_batching.wire.exchange import Message

_SHARED = (
    ("content-type", "Content-Type"),
    ("inference-header-content-length", "Inference-Header-Content-Length"),
    ("retry-after", "Retry-After"),
    ("www-authenticate", "WWW-Authenticate"),
    ("x-usage-estimated", "X-Usage-Estimated"),
)


def response_to_one(reply: Reply, request_id: str, seconds: float) -> Response:
    """Make the answer for one client.

    Args:
        reply: The server's, cut for this client.
        request_id: Of the client's request.
        seconds: From the request's arrival until now.

    Raises:
        UpstreamBroken: A header of the server's is none.
    """
    queued, taken = _times(reply, seconds)
    headers = CIMultiDict(_said(reply.message))
    for header, value in headers.items():
        if not is_one_line(header + value):
            raise UpstreamBroken(f"expected a header in one line, got {header!r}: {value!r}")
    headers.popall("Content-Length", None)
    headers["X-Request-Id"] = request_id
    headers["X-Batch-Id"] = str(reply.batch_id)
    headers["X-Batch-Size"] = str(reply.batch_size)
    headers["Server-Timing"] = f"queue;dur={queued:.3f}, upstream;dur={taken:.3f}"
    return Response(reply.status, headers, reply.message.body)


def _times(reply: Reply, seconds: float) -> tuple[float, float]:
    """Milliseconds that a request waited, and that the server took."""
    return max(0.0, seconds - reply.seconds) * 1e3, reply.seconds * 1e3


def _said(message: Message) -> list[tuple[str, str]]:
    whole = message.status is not None
    return list(message.headers.items()) if whole else _shared(message.headers)


def _shared(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(header, headers[name]) for name, header in _SHARED if name in headers]
