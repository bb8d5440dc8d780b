"""Whole requests in one body, for a Python web application that wants a list of requests.

The body of a batch is an array of requests, that of its answer one of responses in the same order.
`contrib/packed.py` is the other side.
"""

import re
from collections.abc import Hashable, Mapping, Sequence

import msgspec
from multidict import CIMultiDict

from adaptive_batching.errors import SettingError
from adaptive_batching.wire.exchange import Format, Message, Request, Unsplittable
from adaptive_batching.wire.item_cost import JSON, ItemCost
from adaptive_batching.wire.whole_requests import (
    MARK,
    NOT_ACCEPTED,
    PACKED_TYPE,
    Headers,
    Malformed,
    WholeRequest,
    check_secret,
    pack,
    unpack_responses,
)

_OF_THE_CONNECTION = frozenset(
    {
        "connection", "content-length", "expect", "keep-alive", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", MARK,
    }
)  # fmt: skip


_POSTED = frozenset({"POST"})
_WITH_BODY = frozenset({"PATCH", "POST", "PUT"})
_PATH = re.compile(r"/[!-~]*", re.ASCII)
_NOT_BELIEVED = (
    "the application does not accept packed requests from here, and answers 403:"
    " expected the secret that its PackedRequests has, in secret_file"
)


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


class Packed(Format[PackedShare]):
    """Posted requests, whatever they hold.

    Args:
        secret: What the application asks of what packs; None if it listens on a Unix socket.
        path: Where the application takes those of all paths and of every method with a body, so
            that they share batches; None for each where its client sent it, and POST only.

    Raises:
        SettingError: The secret can't be said in a header, or is none, or the path is none.
    """

    holds_heads = True
    can_repeat = False  # each item is a request of its own, with whatever it does

    def __init__(self, secret: str | None = None, path: str | None = None) -> None:
        if secret is not None:
            try:
                check_secret(secret)
            except ValueError as error:
                raise SettingError("secret_file", str(error)) from error
        if path is not None and not _PATH.fullmatch(path):
            msg = f"expected a path for packed requests, such as /batch, got {path!r}"
            raise SettingError("packed_path", msg)
        self._path = path
        self._methods = _POSTED if path is None else _WITH_BODY
        self._headers = {"content-type": PACKED_TYPE, MARK: secret or "1"}

    def destination(self, method: str, target: str) -> tuple[str, str]:
        """Return the one path for all, or where the client sent this one."""
        return (method, target) if self._path is None else ("POST", self._path)

    def objection(self, answer: bytes) -> str:
        """Return what to do if the application does not believe that we may pack."""
        return _NOT_BELIEVED if answer == NOT_ACCEPTED else ""

    def wants(self, method: str, path: str) -> bool:
        """Whether it has a body for the application to work on."""
        return method in self._methods

    def read(self, request: Request) -> PackedShare:
        """Keep all of a request but what is of the connection."""
        headers = [
            (_bytes(name.lower()), _bytes(value))
            for name, value in request.message.headers.items()
            if name.lower() not in _OF_THE_CONNECTION
        ]
        body = request.message.body
        return PackedShare(WholeRequest(request.method, request.path, request.query, headers, body))

    def costs(self, share: PackedShare, item_cost: ItemCost) -> Sequence[float]:
        """What the body of a request costs, read as JSON where it is looked into."""
        return [item_cost(share.request.body, JSON)]

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


def _named(headers: Headers) -> Mapping[str, str]:
    named = [(_text(name).lower(), _text(value)) for name, value in headers]
    return CIMultiDict((name, value) for name, value in named if name not in _OF_THE_CONNECTION)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # as aiohttp made them of bytes


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")  # as it will be written
