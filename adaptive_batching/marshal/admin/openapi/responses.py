"""What can be answered beside a result: statuses, codes and headers, as OpenAPI has them."""

from dataclasses import dataclass
from typing import Any

from adaptive_batching import errors
from adaptive_batching.wire.error_reply import MESSAGES

Part = dict[str, Any]

_OF_AN_ITEM = "expected float, got str"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A status that is no success.

    Attributes:
        status: The status.
        means: What happened, and whose turn it is.
        codes: What `error` in the body may say.
        headers: What else is told, by header; see `HEADERS`.
    """

    status: int
    means: str
    codes: tuple[str, ...]
    headers: tuple[str, ...] = ()


OF_ENDPOINTS = (
    Refusal(
        400,
        "The body can't be read, or the request is not HTTP as this server reads it.",
        (errors.MalformedBody.code,),
    ),
    Refusal(405, "Endpoints take POST.", ("method_not_allowed",), ("Allow",)),
    Refusal(406, "The answer has no form that is accepted.", ("not_acceptable",)),
    Refusal(408, "The body took too long to arrive.", ("body_timeout",)),
    Refusal(413, "The body is larger than it may be.", ("body_too_large",)),
    Refusal(414, "The request line is longer than it may be.", ("target_too_long",)),
    Refusal(
        415,
        "The body is in none of the forms that are read, or is compressed.",
        ("unsupported_media_type", "unsupported_encoding"),
    ),
    Refusal(
        422,
        "The item is not of the declared type: `path` says where, `message` what was expected.",
        (errors.InvalidItem.code,),
    ),
    Refusal(431, "The headers are larger, or more, than they may be.", ("headers_too_large",)),
    Refusal(
        500,
        "The handler, `cost` or `key` failed. What happened is in the log, under the request's id"
        " or that of an earlier error like it.",
        (
            errors.HandlerError.code,
            errors.CostError.code,
            errors.BatchKeyError.code,
            errors.BatchFunctionError.code,
            errors.Quarantined.code,
            errors.BatchingError.code,
        ),
    ),
    Refusal(
        503,
        "Nothing was done, or the worker was lost; `Retry-After` says when to come back.",
        (
            errors.Overloaded.code,
            errors.QueueFull.code,
            errors.Draining.code,
            errors.NoWorkers.code,
            errors.WorkerLost.code,
        ),
        ("Retry-After",),
    ),
    Refusal(
        504,
        "It was let in, and not answered in time.",
        (errors.DeadlineExceeded.code, errors.WorkerTimeout.code),
    ),
    Refusal(505, "Neither HTTP/1.0 nor HTTP/1.1.", ("http_version",)),
)

NOT_READY = Refusal(
    503,
    "No requests should be sent here.",
    (errors.Draining.code, errors.NoWorkers.code, errors.CrashLoop.code, "example_failed"),
)

HEADERS: dict[str, Part] = {
    "X-Request-Id": {
        "description": "The request's own, if it is harmless, or a new one; the log has it.",
        "required": True,
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "Seconds after which it would probably be let in.",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    },
    "Allow": {"required": True, "schema": {"type": "string"}},
}


def error_response(refusal: Refusal) -> Part:
    """How a refusal is answered."""
    properties: Part = {
        "error": {"type": "string", "enum": list(refusal.codes)},
        "request_id": {"type": "string"},
        "message": {"type": "string", "examples": [MESSAGES.get(refusal.codes[0], _OF_AN_ITEM)]},
    }
    if refusal.status == errors.InvalidItem.status:
        properties |= {"path": {"type": "string", "examples": ["$.pixels[3]"]}}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    names = ("X-Request-Id", *refusal.headers)
    return {
        "description": refusal.means,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
        "content": {"application/json": {"schema": schema}},
    }
