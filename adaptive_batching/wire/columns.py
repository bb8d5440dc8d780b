"""TensorFlow Serving's other notation: `inputs` is a tensor, or tensors by name, a column each.

The server does not ask that they have rows in common, so this is only right for models all of whose
inputs and outputs have the batch as their first dimension.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

import msgspec
from msgspec.structs import replace

from adaptive_batching.wire.brief import brief
from adaptive_batching.wire.exchange import (
    Message,
    Request,
    Unsplittable,
    as_it_came,
    goes_as_it_came,
)
from adaptive_batching.wire.splice import MOST_ITEMS, NotCuttable, Raw, elements, members, text_of

_MOST_CELLS = 2 * MOST_ITEMS
_MOST_COLUMNS = 1024  # each takes more memory than its text, which alone is counted


class Columns(msgspec.Struct, frozen=True):
    """Tensors whose first dimension is the batch.

    Attributes:
        names: Of the tensors, in order; None for a single one that has none.
        rows: The rows of each.
    """

    names: tuple[str, ...] | None
    rows: Sequence[Sequence[msgspec.Raw]]

    @classmethod
    def read(cls, text: Raw, *, bounded: bool = False) -> "Columns":
        """Read a tensor, or an object of tensors.

        Args:
            text: Of the tensors.
            bounded: Whether a client wrote it.

        Raises:
            NotCuttable: It is neither, or holds too many.
            JobTooLarge: A client's has more rows than a request may have items.
        """
        if bytes(memoryview(text)[:1]) == b"[":
            return cls(None, [elements(text, bounded=bounded)])
        named = sorted(members(text, bounded=bounded).items())
        if len(named) > _MOST_COLUMNS:
            raise NotCuttable(f"expected at most {_MOST_COLUMNS} tensors, got {len(named)}")
        rows, total = [], 0
        for _, tensor in named:
            rows.append(elements(tensor, bounded=bounded))
            total += len(rows[-1])
            if bounded and total > _MOST_CELLS:
                raise NotCuttable(f"expected at most {_MOST_CELLS} rows in all tensors together")
        return cls(tuple(name for name, _ in named), rows)

    @classmethod
    def joined(cls, parts: "Sequence[Columns]") -> "Columns":
        """Put rows of the same columns one after the other."""
        rows = zip(*(part.rows for part in parts), strict=True)
        return cls(parts[0].names, [[row for column in own for row in column] for own in rows])

    @property
    def size(self) -> int | None:
        """Rows of each column; None if they differ."""
        sizes = {len(column) for column in self.rows}
        return sizes.pop() if len(sizes) == 1 else None

    def cut(self, sizes: Iterable[int]) -> "list[Columns]":
        """Cut them into columns of so many rows each."""
        spans = pairwise(accumulate(sizes, initial=0))
        return [
            Columns(self.names, [column[begin:end] for column in self.rows]) for begin, end in spans
        ]

    def written(self) -> object:
        """What JSON is made of."""
        return self.rows[0] if self.names is None else dict(zip(self.names, self.rows, strict=True))


class ColumnShare(msgspec.Struct, frozen=True):
    """A request of columns.

    Attributes:
        key: All but the rows.
        beside: The members of its JSON other than `inputs`, in order.
        inputs: Its columns, all with as many rows.
        size: As many.
        own: The whole of it as it came; None for a piece of a request.
        about: The headers of its body.
    """

    key: Hashable
    beside: tuple[tuple[str, bytes], ...]
    inputs: Columns
    size: int
    own: Message | None
    about: Mapping[str, str]


class ColumnFormat:
    """Merges and splits `inputs` and `outputs`."""

    def take(self, request: Request) -> ColumnShare | None:
        """Understand a request; None if its columns differ in length, or there are none."""
        try:
            beside = members(request.message.body, bounded=True)
            inputs = Columns.read(beside.pop("inputs", b""), bounded=True)
        except NotCuttable:
            return None
        if not inputs.size or "instances" in beside:
            return None
        others = tuple((name, bytes(text)) for name, text in sorted(beside.items()))
        own = as_it_came(request.message)
        but_rows = brief((others, inputs.names))
        key = request.path, own.headers.get("content-type"), but_rows, "columns"
        return ColumnShare(key, others, inputs, inputs.size, own, own.headers)

    def merge(self, shares: Sequence[ColumnShare]) -> Message:
        """The rows of all; alone it goes as it came."""
        first = shares[0]
        if len(shares) == 1 and first.own is not None:
            return first.own
        beside = {name: msgspec.Raw(text) for name, text in first.beside}
        inputs = Columns.joined([share.inputs for share in shares])
        body = text_of({**beside, "inputs": inputs.written()})
        return Message(body, first.about)

    def split(self, shares: Sequence[ColumnShare], answer: Message) -> list[Message]:
        """To each share its rows of each output.

        Raises:
            Unsplittable: An output has not as many rows as the inputs.
        """
        if goes_as_it_came(shares):
            return [answer]
        sizes = [share.size for share in shares]
        beside, outputs = _opened(answer, sum(sizes))
        return [_closed(beside, part, answer) for part in outputs.cut(sizes)]

    def cut(self, share: ColumnShare, limit: int) -> list[ColumnShare]:
        """Shares of at most `limit` rows."""
        whole, rest = divmod(share.size, limit)
        sizes = [limit] * whole + [rest] * (rest > 0)
        parts = zip(sizes, share.inputs.cut(sizes), strict=True)
        return [replace(share, inputs=part, size=size, own=None) for size, part in parts]

    def join(self, share: ColumnShare, answers: Sequence[Message]) -> Message:
        """All rows of each output.

        Raises:
            Unsplittable: Answers have other outputs than others, or there are not enough rows.
        """
        opened = [_opened(answer) for answer in answers]
        beside, first = opened[0]
        if any(outputs.names != first.names for _, outputs in opened):
            raise Unsplittable("expected the same outputs for all pieces of a request")
        outputs = Columns.joined([outputs for _, outputs in opened])
        _check(outputs, share.size)
        return _closed(beside, outputs, answers[0])


def _opened(answer: Message, expected: int | None = None) -> tuple[dict[str, msgspec.Raw], Columns]:
    try:
        beside = members(answer.body)
        outputs = Columns.read(beside.pop("outputs", b""))
    except NotCuttable as error:
        raise Unsplittable(f"the answer is not cut: {error}") from error
    if expected is not None:
        _check(outputs, expected)
    return beside, outputs


def _check(outputs: Columns, expected: int) -> None:
    if outputs.size != expected:
        lengths = ", ".join(str(len(column)) for column in outputs.rows) or "none"
        raise Unsplittable(f"expected outputs of {expected} rows, got {lengths}")


def _closed(beside: dict[str, msgspec.Raw], outputs: Columns, answer: Message) -> Message:
    return Message(text_of({**beside, "outputs": outputs.written()}), answer.headers)
