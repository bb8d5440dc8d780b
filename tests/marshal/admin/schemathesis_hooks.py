"""What schemathesis has to know of our types and codecs, in its own process."""

import io
from typing import Any

import msgspec
import numpy as np
import schemathesis
from hypothesis import strategies as st


def _npy(rows: int) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ones((rows, 2), "uint8"))
    return stream.getvalue()


schemathesis.openapi.media_type("application/x-npy", st.integers(0, 5).map(_npy))


@schemathesis.serializer("application/msgpack")
def serialize(context: Any, value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


@schemathesis.deserializer("application/msgpack")
def deserialize(context: Any, response: Any) -> Any:
    return msgspec.msgpack.decode(response.content)


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """26.0 is an integer to JSON Schema, and a float to msgspec; MessagePack has 64 bits."""
    match body:
        case float() if body.is_integer():
            return map_body(context, int(body))
        case int() if not isinstance(body, bool):
            return max(-(2**63), min(body, 2**63 - 1))
        case list():
            return [map_body(context, each) for each in body]
        case dict():
            return {name: map_body(context, each) for name, each in body.items()}
    return body


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """A client who waits 2 ms gets a 503, and rightly so."""
    case.headers.pop("X-Request-Timeout-Ms", None)
