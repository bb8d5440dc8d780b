"""Whole requests and responses, many in one body: one MessagePack array of them.

A header says that a body is packed, and that its sender may pack: it speaks for any client.
"""

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec

MARK = "adaptive-batching-packed"
"""The header of a packed body; its value is the secret of both sides, or `1`.

A sidecar drops it from what clients send."""
PACKED_TYPE = "application/x-adaptive-batching-packed"
NOT_ACCEPTED = b"packed requests are not accepted from here"
"""The body of what is answered (403) to one that packs without knowing the secret."""

_MAX_REQUESTS = 2**16  # a few bytes could claim millions, each of which costs memory
Headers = list[tuple[bytes, bytes]]
"""Names in lower case and values, as ASGI has them."""


class WholeRequest(msgspec.Struct, array_like=True, frozen=True):
    """A request as its client sent it.

    Attributes:
        method: In upper case.
        path: As it came, without the query.
        query: Without the question mark; may be empty.
        headers: But for those of the connection.
        body: All of it.
    """

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes


class WholeResponse(msgspec.Struct, array_like=True, frozen=True):
    """What a client gets.

    Attributes:
        body: All of it.
        status: Of HTTP.
        headers: Without those of the connection.
    """

    body: bytes = b""
    status: Annotated[int, msgspec.Meta(ge=200, le=599)] = 200
    headers: Headers = []


class Malformed(ValueError):
    """A body is not packed as it should be."""


def check_secret(secret: str) -> None:
    """See that it is one.

    Raises:
        ValueError: It can't be said in a header, or is empty.
    """
    if not (secret and secret.isascii() and secret.isprintable() and secret == secret.strip()):
        raise ValueError("expected a secret of printable ASCII, without spaces around it")


def pack(messages: Sequence[WholeRequest] | Sequence[WholeResponse]) -> bytes:
    """Put them in one body."""
    return _encode(messages)


def unpack_requests(body: bytes) -> list[WholeRequest]:
    """Read what a sidecar packed.

    Raises:
        Malformed: It is nothing of the kind, or more than 65536.
    """
    return _unpack(body, _requests)


def unpack_responses(body: bytes) -> list[WholeResponse]:
    """Read what an application packed.

    Raises:
        Malformed: It is nothing of the kind, or more than 65536.
    """
    return _unpack(body, _responses)


_M = TypeVar("_M", WholeRequest, WholeResponse)
_Many = msgspec.Meta(max_length=_MAX_REQUESTS)
_encode = msgspec.msgpack.Encoder().encode
_requests = msgspec.msgpack.Decoder(Annotated[list[WholeRequest], _Many])
_responses = msgspec.msgpack.Decoder(Annotated[list[WholeResponse], _Many])


def _unpack(body: bytes, decoder: "msgspec.msgpack.Decoder[list[_M]]") -> list[_M]:
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error
