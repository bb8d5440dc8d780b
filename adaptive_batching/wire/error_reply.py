"""What every error looks like to a client, before our own server and in programs of others.

A client gets a code, a request id and a message. The message is fixed by the code unless it speaks
of nothing but what this client sent: what exceptions say names files, processes and other people's
input. It goes to the log under the same id, or that of the first error of a burst of its kind.
"""

import itertools
import random
import re
import secrets
from typing import Final, NamedTuple

from adaptive_batching.errors import (
    BatchingError,
    InvalidItem,
    JobTooLarge,
    MalformedBody,
    Refused,
    TenantQueueFull,
)
from adaptive_batching.exception_text import message_of
from adaptive_batching.wire.strict_json import encode

HANDLER_ERROR: Final = (500, "handler_error")

_LONGEST_RETRY = 60.0  # seconds; a prediction further off than that is worth nothing
_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_LONGEST_MESSAGE = 300  # characters: it may quote what the client sent
_OWN = (MalformedBody, JobTooLarge)  # what they say is of nothing but the client's own body
_LOGGED = "the server's log says more under this request_id, or that of an earlier error like it"
MESSAGES: Final = {
    "bad_batch_result": f"the handler's results don't fit its batch or its endpoint; {_LOGGED}",
    "bad_config": f"the server's settings can't be; {_LOGGED}",
    "bad_cost": f"what the item costs could not be told; {_LOGGED}",
    "bad_key": f"the batch key of the item could not be told; {_LOGGED}",
    "bad_limit": "expected limit=N with a positive integer",
    "body_timeout": "the body took too long to arrive",
    "body_too_large": "the body is larger than this path takes",
    "crash_loop": "the workers end as soon as they are started",
    "cross_origin": "expected a request by a program, got one by a web page",
    "deadline_exceeded": "the request was accepted, and its deadline came before its answer",
    "draining": "the server ends: send the request to another one",
    "forbidden_host": "expected a Host that is an address or localhost",
    "handler_error": f"the handler raised an exception; {_LOGGED}",
    "headers_too_large": "the headers are larger, or more, than this server takes",
    "http_version": "expected HTTP/1.0 or HTTP/1.1",
    "internal": f"the server made a mistake; {_LOGGED}",
    "malformed": "the request is not HTTP as this server reads it",
    "method_not_allowed": "the path does not take this method: see the header Allow",
    "no_workers": "no worker is ready: try again after the seconds that Retry-After says",
    "not_acceptable": "the answer has no form that the request's Accept takes",
    "not_found": "there is nothing at this path",
    "overloaded": "the answer would come too late: try again after the seconds of Retry-After",
    "quarantined": "workers ended over this request: it should not be sent again",
    "queue_full": "too many requests wait: try again after the seconds of Retry-After",
    "refused": "nothing was done: try again after the seconds of Retry-After",
    "target_too_long": "the request line is longer than this server takes",
    "tenant_limit": "too many requests of this tenant wait, or are under way",
    "unsupported_encoding": "the body is compressed: send it without Content-Encoding",
    "unsupported_media_type": "the body's Content-Type is none of those in this answer's Accept",
    "upstream_answered": f"the model server answered with an error; {_LOGGED}",
    "upstream_broken": f"what the model server sent is no answer; {_LOGGED}",
    "upstream_lost": "the model server can't be reached, or hung up before it answered",
    "worker_error": f"the worker failed; {_LOGGED}",
    "worker_lost": "the worker ended while it held this request",
    "worker_timeout": "the worker did not answer in time",
}
"""What a client is told beside a code that says it all."""

_process = secrets.token_hex(4)  # one draw: a counter is unique as well and costs no system call
_numbers = itertools.count(1)


class ItemFailed(Exception):
    """One item failed of several that a request brought.

    Attributes:
        index: Its place among them, from 0.
        error: What it failed with.
    """

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class ErrorReply(NamedTuple):
    """An error as HTTP says it: its headers have all but the body's length."""

    status: int
    headers: dict[str, str]
    body: bytes


def status_and_code(error: Exception) -> tuple[int, str]:
    """Under which status and code an error is reported; an unknown one is the handler's own."""
    if isinstance(error, ItemFailed):
        error = error.error
    return (error.status, error.code) if isinstance(error, BatchingError) else HANDLER_ERROR


def error_reply(
    error: Exception, request_id: str, status: int, code: str, message: str = ""
) -> ErrorReply:
    """What the client of a request that failed is told.

    Args:
        error: Why it failed.
        request_id: What the request is called in the log.
        status: The HTTP status.
        code: What the body says.
        message: Instead of the one that is fixed by the code.
    """
    path = ""
    if isinstance(error, ItemFailed):
        path, error = f"$[{error.index}]", error.error
    headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
    if status == 503 or isinstance(error, TenantQueueFull):
        wait = error.retry_after if isinstance(error, Refused) else 0.0
        headers["Retry-After"] = str(_retry_after(wait))
    return ErrorReply(status, headers, _body(error, code, request_id, message, path))


def acceptable_id(given: str | None) -> str:
    """An id that a client gave if it is harmless, else a new one."""
    if given is not None and _ACCEPTABLE_ID.fullmatch(given):
        return given
    return new_request_id()


def new_request_id() -> str:
    """An id that no other request of any of our processes has."""
    return f"{_process}-{next(_numbers):x}"


def _body(error: Exception, code: str, request_id: str, message: str, path: str) -> bytes:
    if isinstance(error, InvalidItem):
        told = {"path": error.path, "message": error.fault}
    elif isinstance(error, _OWN):
        told = {"message": message_of(error)[:_LONGEST_MESSAGE]}
    elif message or path:
        told = {"message": message or MESSAGES.get(code, "")}
    else:
        fixed = _FIXED.get(code, b"")
        return b'{"error":"%b","request_id":"%b"%b}' % (code.encode(), request_id.encode(), fixed)
    if path:
        told["path"] = path
    return encode({"error": code, "request_id": request_id, **told})


def _retry_after(wait: float) -> int:
    """Whole seconds, spread out so that clients refused together don't return together."""
    wait = min(wait, _LONGEST_RETRY)
    spread = max(2.0, wait / 2)
    return 1 + int(wait + spread * random.random())  # noqa: S311  not a secret


_FIXED = {code: b',"message":' + encode(text) for code, text in MESSAGES.items()}
