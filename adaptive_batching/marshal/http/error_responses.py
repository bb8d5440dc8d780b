"""What is answered without asking a worker: requests that can't be served as they came."""

from adaptive_batching.marshal.http.response import Response
from adaptive_batching.wire import error_reply


class Rejected(Exception):
    """A request that can't be served as it came.

    Attributes:
        status: The HTTP status.
        code: What the body says.
        closes: Whether the connection can't be used any further.
        headers: What else the answer has to say.
        message: What the client is told instead of what the code says.
    """

    def __init__(
        self,
        status: int,
        code: str,
        *,
        closes: bool = False,
        headers: dict[str, str] | None = None,
        message: str = "",
    ) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.closes = closes
        self.headers = headers or {}
        self.message = message


def status_and_code(error: Exception) -> tuple[int, str]:
    """Under which status and code an error is reported; an unknown one is the handler's own."""
    if isinstance(error, Rejected):
        return error.status, error.code
    return error_reply.status_and_code(error)


def refusal(error: Exception, request_id: str) -> Response:
    """What the client of a request that failed is told."""
    message = error.message if isinstance(error, Rejected) else ""
    reply = error_reply.error_reply(error, request_id, *status_and_code(error), message)
    if isinstance(error, Rejected):
        return Response(reply.status, reply.headers | error.headers, reply.body, error.closes)
    return Response(*reply)
