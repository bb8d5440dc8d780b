"""What one client gets of a server's answer to a batch.

Of the server's headers only what is not for another client, then how it came about: which batch it
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


class ResponseSplitting:
    """Makes the answers for the clients of one route.

    The members of a batch share the server's headers, which are looked at once for all of them.
    """

    __slots__ = ("_headers", "_said")

    def __init__(self) -> None:
        self._said: tuple[Mapping[str, str] | None, bool] = (None, False)
        self._headers: dict[str, str] | CIMultiDict[str] = {}

    def response_to_one(self, reply: Reply, request_id: str, seconds: float) -> Response:
        """Make the answer for one client.

        Args:
            reply: The server's, cut for this client.
            request_id: Of the client's request.
            seconds: From the request's arrival until now.

        Raises:
            UpstreamBroken: A header of the server has a line break or another control character.
        """
        message = reply.message
        said = message.headers, message.status is None
        if said[0] is not self._said[0] or said[1] is not self._said[1]:
            self._headers, self._said = _passed_on(message), said
        headers = self._headers.copy()
        queued = max(0.0, seconds - reply.seconds)
        headers["X-Request-Id"] = request_id
        headers["X-Batch-Id"] = str(reply.batch_id)
        headers["X-Batch-Size"] = str(reply.batch_size)
        headers["Server-Timing"] = (
            f"queue;dur={queued * 1e3:.3f}, upstream;dur={reply.seconds * 1e3:.3f}"
        )
        return Response(reply.status, headers, message.body)


def _passed_on(message: Message) -> dict[str, str] | CIMultiDict[str]:
    """All headers of an answer to one request; of a shared answer only those about the body.

    Raises:
        UpstreamBroken: One of them is not of one line.
    """
    said = message.headers
    headers: dict[str, str] | CIMultiDict[str]
    if message.status is None:
        headers = {header: said[name] for name, header in _SHARED if name in said}
    else:
        headers = CIMultiDict(said)
        headers.popall("Content-Length", None)
    if not is_one_line("".join([*headers.keys(), *headers.values()])):
        raise UpstreamBroken(f"expected headers of one line each, got {headers!r}")
    return headers
