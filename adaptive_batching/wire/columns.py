"""TensorFlow Serving's other notation: `inputs` is a tensor, or tensors by name, a column each.

The server does not ask that they have rows in common, so this is only right for models all of whose
inputs and outputs have the batch as their first dimension.
"""

from collections.abc import Sequence
from typing import Any

from adaptive_batching.wire.brief import brief
from adaptive_batching.wire.exchange import Request
from adaptive_batching.wire.item_cost import ItemCost
from adaptive_batching.wire.listed import Pointer, Rows, RowShare, fields_of
from adaptive_batching.wire.splice import MOST_ITEMS, NotCuttable, Raw, elements, members, text_of

_MOST_CELLS = 2 * MOST_ITEMS
_MOST_COLUMNS = 1024  # each takes more memory than its text, which alone is counted


class Columns(Rows, frozen=True):
    """Tensors whose first dimension is the batch: each item is a row of all of them."""

    @classmethod
    def find(cls, text: Raw, pointer: Pointer, *, bounded: bool = False) -> Rows:
        """Find a tensor, or an object of tensors; as `Rows.find`.

        Raises:
            NotCuttable: It is neither, holds too many, or they have not as many rows.
            JobTooLarge: A client's has more rows than a request may have items.
        """
        if pointer or bytes(memoryview(text)[:1]) == b"[":
            return super().find(text, pointer, bounded=bounded)
        named = sorted(members(text, bounded=bounded).items())
        if len(named) > _MOST_COLUMNS:
            raise NotCuttable(f"expected at most {_MOST_COLUMNS} tensors, got {len(named)}")
        columns, total = [], 0
        for _, tensor in named:
            columns.append(elements(tensor, bounded=bounded))
            total += len(columns[-1])
            if bounded and total > _MOST_CELLS:
                raise NotCuttable(f"expected at most {_MOST_CELLS} rows in all tensors together")
        if len({len(column) for column in columns}) > 1:
            lengths = ", ".join(str(len(column)) for column in columns)
            raise NotCuttable(f"expected tensors of as many rows, got {lengths}")
        names = tuple(name for name, _ in named)
        return cls(b"", list(zip(*columns, strict=True)), b"", names)

    def costs(self, item_cost: ItemCost) -> list[float]:
        """What each row costs: its parts in all tensors together.

        Raises:
            NotCuttable: That can't be read off one of them.
        """
        if self.names is None:
            return super().costs(item_cost)
        notation = self.notation
        return [sum(item_cost(part, notation) for part in row) for row in self.items]

    def text(self, items: Sequence[Any] | None = None) -> bytes:
        """The whole, with these rows in its tensors or its own."""
        if self.names is None:
            return super().text(items)
        columns = zip(*(self.items if items is None else items), strict=True)
        return self.before + text_of(dict(zip(self.names, columns, strict=True))) + self.after


def columns_of(request: Request) -> RowShare | None:
    """What a request with `inputs` brings; None if its tensors have no rows in common."""
    try:
        rows = Columns.find(request.message.body, ("inputs",), bounded=True)
    except NotCuttable:
        return None
    if not rows.items or rows.has_beside("instances"):
        return None
    return RowShare(*fields_of(request, rows, ("outputs",), "columns", brief(rows.names)))
