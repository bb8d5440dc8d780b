"""What is answered without asking a worker, and what every error looks like to a client.

A client gets a fixed code and a request id, and no message but one on its own item: messages name
files, processes and other people's input. They go to the log, under the same id.
"""

import random
from typing import Final

from adaptive_batching.errors import BatchingError, InvalidItem, Refused, TenantQueueFull
from adaptive_batching.marshal.http.response import Response
from adaptive_batching.wire.strict_json import encode

_LONGEST_RETRY = 60.0  # seconds; a prediction further off than that is worth nothing


class Rejected(Exception):
    """A request that can't be served as it came.

    Attributes:
        status: The HTTP status.
        code: What the body says.
        closes: Whether the connection can't be used any further.
        headers: What else the answer has to say.
    """

    def __init__(
        self, status: int, code: str, *, closes: bool = False, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.closes = closes
        self.headers = headers or {}


HANDLER_ERROR: Final = (500, "handler_error")


def status_and_code(error: Exception) -> tuple[int, str]:
    """Under which status and code an error is reported; an unknown one is the handler's own."""
    if isinstance(error, (BatchingError, Rejected)):
        return error.status, error.code
    return HANDLER_ERROR


def refusal(error: Exception, request_id: str) -> Response:
    """What the client of a request that failed is told."""
    status, code = status_and_code(error)
    headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
    closes = False
    if isinstance(error, Rejected):
        headers |= error.headers
        closes = error.closes
    if status == 503 or isinstance(error, TenantQueueFull):
        wait = error.retry_after if isinstance(error, Refused) else 0.0
        headers["Retry-After"] = str(_retry_after(wait))
    return Response(status, headers, _body(error, code, request_id), closes)


def _body(error: Exception, code: str, request_id: str) -> bytes:
    if isinstance(error, InvalidItem):  # of nothing but what this client sent
        told = {"path": error.path, "message": error.fault}
        return encode({"error": code, "request_id": request_id, **told})
    return b'{"error":"%b","request_id":"%b"}' % (code.encode(), request_id.encode())


def _retry_after(wait: float) -> int:
    """Whole seconds, spread out so that clients refused together don't return together."""
    wait = min(wait, _LONGEST_RETRY)
    spread = max(2.0, wait / 2)
    return 1 + int(wait + spread * random.random())  # noqa: S311  not a secret
