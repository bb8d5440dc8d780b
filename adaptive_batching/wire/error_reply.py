"""What every error looks like to a client, before our own server and in programs of others.

A client gets a fixed code and a request id, and no message but one on its own item: messages name
files, processes and other people's input. They go to the log, under the same id.
"""

import itertools
import random
import re
import secrets
from typing import Final, NamedTuple

from adaptive_batching.errors import BatchingError, InvalidItem, Refused, TenantQueueFull
from adaptive_batching.wire.strict_json import encode

HANDLER_ERROR: Final = (500, "handler_error")

_LONGEST_RETRY = 60.0  # seconds; a prediction further off than that is worth nothing
_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_process = secrets.token_hex(4)  # one draw: a counter is unique as well and costs no system call
_numbers = itertools.count(1)


class ErrorReply(NamedTuple):
    """An error as HTTP says it: its headers have all but the body's length."""

    status: int
    headers: dict[str, str]
    body: bytes


def status_and_code(error: Exception) -> tuple[int, str]:
    """Under which status and code an error is reported; an unknown one is the handler's own."""
    return (error.status, error.code) if isinstance(error, BatchingError) else HANDLER_ERROR


def error_reply(error: Exception, request_id: str, status: int, code: str) -> ErrorReply:
    """What the client of a request that failed is told."""
    headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
    if status == 503 or isinstance(error, TenantQueueFull):
        wait = error.retry_after if isinstance(error, Refused) else 0.0
        headers["Retry-After"] = str(_retry_after(wait))
    return ErrorReply(status, headers, _body(error, code, request_id))


def acceptable_id(given: str | None) -> str:
    """An id that a client gave if it is harmless, else a new one."""
    if given is not None and _ACCEPTABLE_ID.fullmatch(given):
        return given
    return new_request_id()


def new_request_id() -> str:
    """An id that no other request of any of our processes has."""
    return f"{_process}-{next(_numbers):x}"


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
