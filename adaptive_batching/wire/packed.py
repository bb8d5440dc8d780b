"""Whole requests in one body, for a Python web application that wants a list of requests.

The body of a batch is one MessagePack array of requests, that of its answer one of responses in the
same order; a header says that it is packed. `marshal/packed.py` is the other side.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated, TypeVar

import msgspec
from multidict import CIMultiDict

from adaptive_batching.wire.exchange import Message, Request, Unsplittable

MARK = "adaptive-batching-packed"
"""The header of a packed body; its value is the secret of both sides, or `1`. Nobody else may say
it: a sidecar drops it from what clients send."""
PACKED_TYPE = "application/x-adaptive-batching-packed"

_MAX_REQUESTS = 2**16  # a few bytes could claim millions, each of which costs memory
_OF_THE_CONNECTION = frozenset(
    {
        "connection", "content-length", "expect", "keep-alive", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", MARK,
    }
)  # fmt: skip

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


class PackedShare(msgspec.Struct, frozen=True):
    """A whole request, which is one item."""

    request: WholeRequest

    @property
    def key(self) -> Hashable:
        """All may be packed together."""
        return "packed"

    @property
    def size(self) -> int:
        """Always one."""
        return 1


class Packed:
    """Posted requests, whatever they hold.

    Args:
        secret: What the application asks of who packs; None if it listens on a Unix socket.

    Raises:
        ValueError: The secret can't be said in a header, or is none.
    """

    def __init__(self, secret: str | None = None) -> None:
        if secret is not None:
            check_secret(secret)
        self._headers = {"content-type": PACKED_TYPE, MARK: secret or "1"}

    def wants(self, method: str, path: str) -> bool:
        """Whether it has a body for the application to work on."""
        return method == "POST"

    def take(self, request: Request) -> PackedShare | None:
        """Keep all of a request but what is of the connection."""
        if request.method != "POST":
            return None
        headers = [
            (_bytes(name.lower()), _bytes(value))
            for name, value in request.message.headers.items()
            if name.lower() not in _OF_THE_CONNECTION
        ]
        body = request.message.body
        return PackedShare(WholeRequest(request.method, request.path, request.query, headers, body))

    def merge(self, shares: Sequence[PackedShare]) -> Message:
        """All requests in one body, also if it is one only: its answer has headers of its own."""
        return Message(pack([share.request for share in shares]), self._headers)

    def split(self, shares: Sequence[PackedShare], answer: Message) -> list[Message]:
        """To each its response, with a status of its own.

        Raises:
            Unsplittable: There is not a response for each request.
        """
        try:
            responses = unpack_responses(answer.body)
        except Malformed as error:
            raise Unsplittable(f"the answer is not packed: {error}") from error
        if len(responses) != len(shares):
            raise Unsplittable(f"expected {len(shares)} responses, got {len(responses)}")
        return [
            Message(response.body, _named(response.headers), response.status)
            for response in responses
        ]

    def cut(self, share: PackedShare, limit: int) -> list[PackedShare]:
        """One item is never cut."""
        return [share]

    def join(self, share: PackedShare, answers: Sequence[Message]) -> Message:
        """The only answer."""
        return answers[0]


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


def _named(headers: Headers) -> Mapping[str, str]:
    named = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
    return CIMultiDict((name, value) for name, value in named if name not in _OF_THE_CONNECTION)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # as aiohttp made them of bytes
