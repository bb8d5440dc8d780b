"""What an inference protocol has to offer so that requests of it can share a batch.

A format takes requests, merges what it took into one request of the same protocol, and splits the
answer to that. It never looks at numbers: items travel as the bytes that came.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from adaptive_batching.wire.item_cost import ItemCost
from adaptive_batching.wire.pieces import Pieces, size_of
from adaptive_batching.wire.splice import NotCuttable


class Message(msgspec.Struct, frozen=True):
    """A body and what has to be said about it.

    Attributes:
        body: As it goes over the wire, without a content or transfer encoding.
        headers: Of the body alone, names in lower case: `content-type` and what the protocol adds.
        status: Of an answer whose status and headers are all its client's own; None if they are
            those of the batch.
        tail: What the body goes on with, still where it was received; a copy of large tensors
            would cost as much as their way here. Only of tensors are requests shown with one.
    """

    body: bytes
    headers: Mapping[str, str] = {}
    status: int | None = None
    tail: Pieces = ()

    @property
    def pieces(self) -> Pieces:
        """All of its body; none if it is empty."""
        return (memoryview(self.body), *self.tail) if self.body else self.tail

    @property
    def size(self) -> int:
        """Bytes of all of its body."""
        return len(self.body) + size_of(self.tail)


def goes_as_it_came(shares: Sequence[Any]) -> bool:
    """Whether a request is alone and whole; shares have it as `own`, pieces of one have None.

    Packed ones never go as they came, and have nothing of the kind.
    """
    return len(shares) == 1 and getattr(shares[0], "own", None) is not None


def as_it_came(message: Message, *more: str) -> Message:
    """This body, with its type and `more` of its headers."""
    look_up = message.headers.get
    content_type = look_up("content-type")
    about = {} if content_type is None else {"content-type": content_type}
    for name in more:
        text = look_up(name)
        if text is not None:
            about[name] = text
    return Message(message.body, about, tail=message.tail)


class Request(msgspec.Struct, frozen=True):
    """What a format is shown of an HTTP request.

    Attributes:
        method: In upper case.
        path: Without the query, as it came.
        message: Its body, and all its headers.
        query: Without the question mark, as it came.
    """

    method: str
    path: str
    message: Message
    query: str = ""


class Share(Protocol):
    """A request that may join a batch."""

    @property
    def key(self) -> Hashable:
        """What has to be equal for two to be merged."""

    @property
    def size(self) -> int:
        """Items that it brings; at least 1."""


S = TypeVar("S", bound=Share)


class Format(Protocol[S]):
    """An inference protocol; what most have in common they inherit.

    Attributes:
        holds_heads: Whether a batch holds each request with its own line and headers, so that
            those of the batch are the same for all.
        has_models: Whether servers that speak it may tell how large batches of a model may be.
        has_texts: Whether an item is a value that can be looked into, not a row of tensors.
        can_repeat: Whether an item may stand in a batch several times, to fill it up.
    """

    holds_heads: ClassVar[bool] = False
    has_models: ClassVar[bool] = False
    has_texts: ClassVar[bool] = True
    can_repeat: ClassVar[bool] = True

    def destination(self, method: str, target: str) -> tuple[str, str]:
        """Return the method and target of the batch that such a request joins."""
        return method, target

    def reads_pieces(self, headers: Mapping[str, str]) -> bool:
        """Whether the body of a request is best kept in the pieces in which it arrives."""
        return False

    def objection(self, answer: bytes) -> str:
        """Return why a server takes no batch at all, and what to do; empty if it is another error.

        Args:
            answer: The body of an error.
        """
        return ""

    def wants(self, method: str, path: str) -> bool:
        """Whether requests there may share a batch, so that their bodies are worth reading."""

    def take(self, request: Request) -> S | None:
        """Understand a request; None if it can't share a batch, for whatever reason."""
        if not self.wants(request.method, request.path):
            return None
        try:
            return self.read(request)
        except NotCuttable:
            return None

    def read(self, request: Request) -> S | None:
        """Understand a request that is wanted, for `take`.

        Raises:
            NotCuttable: It can't share a batch.
        """

    def costs(self, share: S, item_cost: ItemCost) -> Sequence[float]:
        """What each item of a share costs.

        Raises:
            NotCuttable: That can't be read off one of them.
        """

    def merge(self, shares: Sequence[S]) -> Message:
        """Make one request's message of shares with equal keys, items in their order."""

    def split(self, shares: Sequence[S], answer: Message) -> list[Message]:
        """Cut the answer to a merged request into one for each share.

        What is answered to a request that is alone, and went as it came, is for its client,
        whatever it is.

        Raises:
            Unsplittable: It does not hold one result for each item.
        """

    def cut(self, share: S, limit: int) -> list[S]:
        """Cut a share into such of at most `limit` items, in order."""

    def repeated(self, share: S, place: int, times: int) -> S:
        """Return a share that holds one item of this one so many times.

        Args:
            share: It.
            place: Index of the item; -1 for the last.
            times: How often.

        Raises:
            NotImplementedError: The format is none that `can_repeat` an item.
        """
        name = type(self).__name__
        raise NotImplementedError(f"{name}: expected a format that can repeat an item")

    def join(self, share: S, answers: Sequence[Message]) -> Message:
        """Make one answer of those to the pieces of a share that was cut.

        Raises:
            Unsplittable: One of them is not what the protocol says.
        """


class Unsplittable(ValueError):
    """An answer does not hold one result for each item; says what was expected and what came."""
