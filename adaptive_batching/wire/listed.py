"""JSON with a list of items in the request and a list of results in the answer, wherever they are.

All protocols that are JSON in rows are this, with names of their own.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec.structs import replace

from adaptive_batching.wire.brief import brief
from adaptive_batching.wire.exchange import (
    Format,
    Message,
    Request,
    Unsplittable,
    as_it_came,
    goes_as_it_came,
)
from adaptive_batching.wire.item_cost import JSON, ItemCost, Notation
from adaptive_batching.wire.large import cut_out
from adaptive_batching.wire.splice import (
    LARGE,
    NOT_STRICT_SIZE,
    NotCuttable,
    Raw,
    check,
    elements,
    joined,
    members,
    text_of,
)

Pointer = Sequence[str]
"""Where a value is: the names on the way to it; none for the whole text."""


class Rows(msgspec.Struct, frozen=True):
    """A list of a JSON text, and the text around it in a form of its own.

    Attributes:
        before: What stands before the list.
        items: The text of each element.
        after: What stands after it.
        names: Of the columns that each item is a row of; None if it is a text.
    """

    before: bytes
    items: Sequence[Any]
    after: bytes
    names: tuple[str, ...] | None = None

    notation: ClassVar[Notation] = JSON
    elements: ClassVar = staticmethod(elements)
    members: ClassVar[Callable[..., dict[str, msgspec.Raw]]] = staticmethod(members)

    @classmethod
    def read(cls, body: bytes, pointer: Pointer) -> "Rows":
        """Find the list of a request, at bounded cost.

        Raises:
            NotCuttable: There is no list at that place, or to find it would take too long.
            JobTooLarge: It has more items than a request may have.
        """
        if pointer and len(body) > LARGE:
            try:
                value, rest = cls.cut_out(body, tuple(pointer))
            except NotCuttable:
                if len(body) > NOT_STRICT_SIZE:
                    raise
            else:
                rows = cls.find(rest, pointer, bounded=True)
                if rows.items:
                    raise NotCuttable("expected nothing in a list that is cut out")
                return replace(rows, items=cls.elements(value, bounded=True))
        return cls.find(body, pointer, bounded=True)

    @staticmethod
    def cut_out(body: bytes, pointer: tuple[str, ...]) -> tuple[msgspec.Raw, bytes]:
        """Return the list of a large body, and the body with an empty list in its place.

        Raises:
            NotCuttable: There is nothing at that place, or to look for it would take too long.
        """
        check(body, readings=2)
        return cut_out(body, pointer, b"[]", msgspec.json.Decoder)

    @classmethod
    def find(cls, text: Raw, pointer: Pointer, *, bounded: bool = False) -> "Rows":
        """Find the list; all names beside it are put in order, so that texts can be compared.

        Args:
            text: Of the whole.
            pointer: Where the list is.
            bounded: Whether a client wrote it.

        Raises:
            NotCuttable: There is no list at that place, or no JSON.
            JobTooLarge: A client's has more items than a request may have.
        """
        if not pointer:
            return cls(b"", cls.elements(text, bounded=bounded), b"")
        beside = cls.members(text, bounded=bounded)
        name, *rest = pointer
        inner = beside.pop(name, None)
        if inner is None:
            raise NotCuttable(f"expected {name!r} in the object, got {', '.join(beside) or 'none'}")
        return cls.within(beside, name, cls.find(inner, rest, bounded=bounded))

    @classmethod
    def within(cls, beside: Mapping[str, Raw], name: str, inner: "Rows") -> "Rows":
        """Put a list into an object, under a name that comes last."""
        others = b""
        if beside:  # as it seldom is
            others = b"".join(
                text_of(other) + b":" + bytes(value) + b","
                for other, value in sorted(beside.items())
            )
        before = b"{" + others + text_of(name) + b":" + inner.before
        return cls(before, inner.items, inner.after + b"}", inner.names)

    def costs(self, item_cost: ItemCost) -> list[float]:
        """What each item costs.

        Raises:
            NotCuttable: That can't be read off one of them.
        """
        notation = self.notation
        return [item_cost(item, notation) for item in self.items]

    def text(self, items: Sequence[Any] | None = None) -> bytes:
        """The whole, with these items in the list or its own."""
        return self.before + joined(self.items if items is None else items) + self.after

    def has_beside(self, name: str) -> bool:
        """Whether an object of JSON has a member of that name beside the list."""
        quoted = text_of(name)
        return quoted in self.before and name in members(self.before + b"[]" + self.after)


class RowShare(msgspec.Struct, frozen=True):
    """A request of rows.

    Attributes:
        key: All that two requests must have in common to be merged: all but the items.
        rows: Its items.
        results: Where the answer will have its list.
        own: The whole of it as it came; None for a piece of a request.
        about: The headers of its body.
    """

    key: Hashable
    rows: Rows
    results: tuple[str, ...]
    own: Message | None
    about: Mapping[str, str]

    @property
    def size(self) -> int:
        """Items that it brings."""
        return len(self.rows.items)


def share_of(request: Request, rows: Rows, results: Pointer) -> RowShare | None:
    """What a request brings; None if it has no item."""
    return RowShare(*fields_of(request, rows, results)) if rows.items else None


def fields_of(
    request: Request, rows: Rows, results: Pointer, *more: Hashable
) -> tuple[Hashable, Rows, tuple[str, ...], Message, Mapping[str, str]]:
    """The fields of a share; two requests that differ in `more` are not merged."""
    own = as_it_came(request.message)
    around = brief((rows.before, rows.after))
    where = tuple(results)
    key = request.path, own.headers.get("content-type"), around, where, *more
    return key, rows, where, own, own.headers


R = TypeVar("R", bound=RowShare)


class RowFormat(Format[R]):
    """Merging and splitting for formats whose `take` returns `RowShare`."""

    def costs(self, share: R, item_cost: ItemCost) -> Sequence[float]:
        """What each item of a share costs; see `Format.costs`."""
        return share.rows.costs(item_cost)

    def merge(self, shares: Sequence[R]) -> Message:
        """One list of all items, in the text that they have in common; alone it goes as it came."""
        first = shares[0]
        if first.own is not None and len(shares) == 1:
            return first.own
        items = [item for share in shares for item in share.rows.items]
        return Message(first.rows.text(items), first.about)

    def split(self, shares: Sequence[R], answer: Message) -> list[Message]:
        """To each share its own results, in the text of the answer.

        Raises:
            Unsplittable: The answer has no list, or not a result for each item.
        """
        if goes_as_it_came(shares):
            return [answer]
        rows = _found(answer, shares[0])
        sizes = [len(share.rows.items) for share in shares]
        _check(len(rows.items), sum(sizes))
        end, parts = 0, []
        for size in sizes:
            begin, end = end, end + size
            parts.append(Message(rows.text(rows.items[begin:end]), answer.headers))
        return parts

    def cut(self, share: R, limit: int) -> list[R]:
        """Shares of at most `limit` items."""
        rows = share.rows
        return [
            replace(share, rows=replace(rows, items=rows.items[begin : begin + limit]), own=None)
            for begin in range(0, share.size, limit)
        ]

    def repeated(self, share: R, place: int, times: int) -> R:
        """Return a share of one of its items, so many times."""
        rows = share.rows
        return replace(share, rows=replace(rows, items=[rows.items[place]] * times), own=None)

    def join(self, share: R, answers: Sequence[Message]) -> Message:
        """All results in one list, in the text of the first answer.

        Raises:
            Unsplittable: There is not a result for each item, or some have other names.
        """
        first, *others = found = [_found(answer, share) for answer in answers]
        if any(rows.names != first.names for rows in others):
            raise Unsplittable("expected the same outputs for all pieces of a request")
        results = [item for rows in found for item in rows.items]
        _check(len(results), share.size)
        return Message(first.text(results), answers[0].headers)


def _found(answer: Message, share: RowShare) -> Rows:
    try:
        return share.rows.find(answer.body, share.results)
    except NotCuttable as error:
        raise Unsplittable(f"the answer is not cut: {error}") from error


def _check(got: int, expected: int) -> None:
    if got != expected:
        raise Unsplittable(f"expected {expected} results, got {got}")
