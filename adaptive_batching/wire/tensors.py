"""Tensors of the Open Inference Protocol, cut and joined along their first dimension."""

from collections.abc import Hashable, Sequence
from itertools import chain
from math import prod
from typing import TypeAlias

import msgspec

from adaptive_batching.wire.pieces import Pieces, size_of
from adaptive_batching.wire.splice import NotCuttable
from adaptive_batching.wire.tensor_data import (
    BYTES,
    check_bytes,
    cut_bytes,
    cut_text,
    join_texts,
    text_layout,
)

Parameters: TypeAlias = dict[str, msgspec.Raw]


class Tensor(msgspec.Struct):
    """A tensor whose first dimension is the batch.

    Attributes:
        name: Of an input or output.
        datatype: Of the protocol.
        shape: All dimensions.
        parameters: Without the size of binary data.
        data: Its elements: bytes are the text of a JSON array; binary ones are in pieces, which
            are put together when they are sent and not before.
        nothing: How it says that it has no parameters: in no way, by `null`, or by none in braces.
    """

    name: str
    datatype: str
    shape: list[int]
    parameters: Parameters
    data: bytes | Pieces
    nothing: Parameters | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def strings(self) -> int:
        """How many strings have to be found in it, one by one."""
        in_text = isinstance(self.data, bytes) and b'"' in self.data
        return prod(self.shape) if self.datatype == BYTES or in_text else 0

    @property
    def kind(self) -> Hashable:
        """All but its rows."""
        kind = self.name, self.datatype, *self.shape[1:]
        if not self.parameters:
            return kind
        return kind, *sorted((name, bytes(value)) for name, value in self.parameters.items())

    def check(self) -> str:
        """See that it holds as many elements as its shape says; returns how they are written.

        Raises:
            NotCuttable: It does not, or has no first dimension.
        """
        shape = self.shape
        if not shape or shape[0] < 1 or min(shape) < 0:
            raise NotCuttable(f"expected a batch as first dimension, got shape {shape}")
        if isinstance(self.data, bytes):
            return text_layout(self.data, shape)
        check_bytes(self.data, self.datatype, shape)
        return "binary"

    def cut(self, sizes: Sequence[int]) -> "list[Tensor]":
        """Cut it along the first dimension into tensors of so many rows each.

        Raises:
            NotCuttable: It has not so many rows.
        """
        shape, total = self.shape, sum(sizes)
        if shape[:1] != [total]:
            msg = f"expected {total} as first dimension of {self.name!r}, got shape {shape}"
            raise NotCuttable(msg)
        if isinstance(self.data, bytes):
            texts = cut_text(self.data, shape, sizes)
            return [self._rows(size, text) for size, text in zip(sizes, texts, strict=True)]
        parts = cut_bytes(self.data, self.datatype, shape, sizes)
        return [self._rows(size, part) for size, part in zip(sizes, parts, strict=True)]

    def repeat(self, place: int, times: int) -> "Tensor":
        """Return a tensor of this kind that holds one row so many times; -1 for the last."""
        rows = self.shape[0]
        before = place % rows
        sizes = [size for size in (before, 1, rows - before - 1) if size]
        row = self if rows == 1 else self.cut(sizes)[1 if before else 0]
        return self.join([row] * times)

    def row_bytes(self) -> list[float]:
        """The bytes of each row; of numbers in text the mean of all."""
        rows = self.shape[0]
        if rows > 1 and self.strings:
            return [_bytes(row.data) for row in self.cut([1] * rows)]
        return [_bytes(self.data) / rows] * rows

    def join(self, tensors: "Sequence[Tensor]") -> "Tensor":
        """Put tensors of this kind one after the other; all are written as this one is."""
        count = sum(tensor.shape[0] for tensor in tensors)
        datas = [tensor.data for tensor in tensors]
        if isinstance(self.data, bytes):
            texts = [data for data in datas if isinstance(data, bytes)]
            return self._rows(count, join_texts(texts))
        pieces = [data for data in datas if not isinstance(data, bytes)]
        return self._rows(count, tuple(chain.from_iterable(pieces)))

    def _rows(self, count: int, data: bytes | Pieces) -> "Tensor":
        shape = [count, *self.shape[1:]]
        return Tensor(self.name, self.datatype, shape, self.parameters, data, self.nothing)


def _bytes(data: bytes | Pieces) -> int:
    return len(data) if isinstance(data, bytes) else size_of(data)
