"""One array in, one array out: what a handler gets that asks for an array instead of a list.

    def __call__(self, x: Annotated[np.ndarray, Shape(512), DType("float32")]) -> np.ndarray

is called with all items of a batch stacked along a new first axis, and every row of its result is
that of one item. `Shape` and `DType` say what *one* item is. Each item is validated by itself
before it is stacked, so a wrong one fails alone. Items of different shapes can't be stacked: those
of each shape go to the handler in a call of their own, so that no caller's shape rules another's.
"""

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from adaptive_batching.errors import BatchFunctionError, InvalidItem
from adaptive_batching.payloads.arrays.array_type import ArrayType
from adaptive_batching.payloads.arrays.columns import Column
from adaptive_batching.payloads.arrays.fields import ArrayFields
from adaptive_batching.payloads.arrays.marks import split_annotation
from adaptive_batching.workers.handler.handler import is_async, name_of
from adaptive_batching.workers.handler.padding import Padding, cut
from adaptive_batching.workers.handler.results import (
    FAILURES,
    CallRaised,
    check_results,
    is_stopped,
)

if TYPE_CHECKING:  # worker processes stack arrays, and most of them without the core
    from adaptive_batching.core import Costs

_SINGLE = ""  # in the place of a name, where an item is one array
_Call = Callable[..., Any]
_Places = list[int]


@dataclass(frozen=True, slots=True)
class Stacking:
    """Turns a handler of stacked arrays into one of a list of items.

    Attributes:
        item: The type of an item: an array, or several by name.
        columns: Of each array by its name, or of all arrays by an empty one.
        hands_lengths: Whether the handler has a parameter `lengths`.
        padding: Fills each call up to a size that the handler takes; None if it takes any.
    """

    item: ArrayType | ArrayFields
    columns: Mapping[str, Column]
    hands_lengths: bool = False
    padding: Padding | None = None

    @classmethod
    def of(cls, hint: Any) -> "Stacking | None":
        """What the annotation of a parameter asks for; None if not for arrays.

        Raises:
            TypeError: It does not say enough of one item, or can be read in two ways.
        """
        single = Column.of(hint)
        if single is not None:
            return cls(single.kind, {_SINGLE: single})
        hint, _ = split_annotation(hint)
        if get_origin(hint) is dict and get_args(hint)[0] is str:
            every = Column.of(get_args(hint)[1])
            if every is not None:
                return cls(ArrayFields({}, every.kind, "arrays"), {_SINGLE: every})
        if is_typeddict(hint):
            hints = get_type_hints(hint, include_extras=True)
            columns = {name: column for name, each in hints.items() if (column := Column.of(each))}
            if columns and len(columns) == len(hints):
                kinds = {name: each.kind for name, each in columns.items()}
                return cls(ArrayFields(kinds, None, hint.__name__), columns)
        return None

    def __call__(self, handler: _Call) -> Callable[[list[Any]], Any]:
        """Turn a handler, ready to be called with arrays, into one of a list."""
        name = name_of(handler)
        if is_async(handler):

            async def run_awaited(items: list[Any]) -> Any:
                batch = _Batch(self, items, name)
                for places in batch.groups:
                    try:
                        stacked, lengths = batch.stacked(places)
                        batch.take(places, await handler(stacked, **lengths))
                    except FAILURES as error:
                        if is_stopped(error):
                            raise
                        batch.fail(places, error)
                return batch.results

            return run_awaited

        def run(items: list[Any]) -> Any:
            batch = _Batch(self, items, name)
            for places in batch.groups:
                try:
                    stacked, lengths = batch.stacked(places)
                    batch.take(places, handler(stacked, **lengths))
                except FAILURES as error:
                    batch.fail(places, error)
            return batch.results

        return run

    def padded_as(self, costs: "Costs") -> "Stacking":
        """This stacking, with padded axes as long as `pad_costs` say, so that costs predict shapes.

        Raises:
            ValueError: An axis is padded, and not all of them are whole numbers.
        """
        lengths = costs.pad_costs
        if not lengths or not any(column.padded for column in self.columns.values()):
            return self
        if any(length != int(length) for length in lengths):
            expected = "expected whole numbers, to which the padded axis of an array is padded"
            raise ValueError(f"pad_costs: {expected}, got {list(lengths)}")
        columns = {name: replace(each, costs=costs) for name, each in self.columns.items()}
        return replace(self, columns=columns)

    def check(self, item: Any) -> Any:
        """The array of an item, or its arrays by name, as they will be stacked.

        Raises:
            InvalidItem: It is not of the declared type.
        """
        kind = self.item
        if (
            type(item) is np.ndarray
            and isinstance(kind, ArrayType)
            and item.dtype == kind.dtype
            and (kind.lengths is None or kind.lengths == item.shape)
        ):
            return item  # as most are, which is seen at a glance
        return kind.from_item(item)

    def filled(self, items: list[Any]) -> list[Any]:
        """Checked items of one layout, and their pads; see `Padding.pads`.

        Raises:
            BatchFunctionError: A pad is not of the declared type, or of another layout.
        """
        if self.padding is None:
            return items
        pads = self.padding.pads(items)
        if pads and self.padding.pad is not None:
            pads = [self._checked_pad(pads[0], items[-1])] * len(pads)
        return items + pads

    def _checked_pad(self, pad: Any, last: Any) -> Any:
        """A pad that a function made, as it will be stacked with the last item."""
        try:
            checked = self.check(pad)
        except InvalidItem as error:  # which would put the blame on the callers
            msg = f"pad: {error.fault} at {error.path} of what it returned for the last item"
            raise BatchFunctionError(msg) from None
        if self.layout(checked) != self.layout(last):
            expected = "expected a pad of the last item's shape and type, such as np.zeros_like"
            raise BatchFunctionError(f"pad: {expected} makes, got {pad!r:.100}")
        return checked

    def without_pads(self, value: Any, size: int, handler: str) -> Any:
        """The results of so many items, as a list or as an array with as many rows."""
        if self.padding is None:
            return _in_rows(value, size, handler)
        filled = self.padding.limits.padded(size)
        return cut(_in_rows(value, filled, handler), size, filled, handler)

    def layout(self, checked: Any) -> Hashable:
        """What two items have in common that can share a call."""
        if self.item.is_one_array:
            return self.columns[_SINGLE].layout(checked)
        return frozenset((name, self.column(name).layout(checked[name])) for name in checked)

    def column(self, name: str) -> Column:
        """How the arrays of a name are stacked."""
        return self.columns[name if name in self.columns else _SINGLE]

    def stack(self, items: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
        """What the handler is called with: the stacked arrays, and `lengths` if it takes them."""
        if self.item.is_one_array:
            column = self.columns[_SINGLE]
            more = {"lengths": column.own_lengths(items)} if self.hands_lengths else {}
            return column.stack(items), more
        stacked, lengths = {}, {}
        for name in items[0]:
            column, arrays = self.column(name), [each[name] for each in items]
            stacked[name] = column.stack(arrays)
            if self.hands_lengths and column.padded is not None:
                lengths[name] = column.own_lengths(arrays)
        return stacked, {"lengths": lengths} if self.hands_lengths else {}


class _Batch:
    """A batch on its way through a handler, which is called once for each layout of its items.

    Attributes:
        groups: The places of the items of each call, all of one layout.
        results: What stands for the items, in their order; an array stays one.
    """

    def __init__(self, stacking: Stacking, items: list[Any], handler: str) -> None:
        self._stacking = stacking
        self._handler = handler
        self._checked: list[Any] = []
        self.results: Any = [None] * len(items)
        groups: dict[Hashable, _Places] = {}
        for place, item in enumerate(items):
            try:
                checked = stacking.check(item)
            except Exception as error:  # noqa: BLE001  its own: an item may have code of its own
                self._checked.append(None)
                self.results[place] = error
            else:
                self._checked.append(checked)
                groups.setdefault(stacking.layout(checked), []).append(place)
        self.groups = [part for group in groups.values() for part in self._parts(group)]

    def _parts(self, places: _Places) -> Iterator[_Places]:
        """Cut the places of one layout into those of calls, none of which costs more than all."""
        padding = self._stacking.padding
        rest = iter(places)
        calls = [len(places)] if padding is None else padding.calls(len(places), len(self.results))
        return ([*islice(rest, size)] for size in calls)

    def stacked(self, places: _Places) -> tuple[Any, dict[str, Any]]:
        items = [self._checked[place] for place in places]
        return self._stacking.stack(self._stacking.filled(items))

    def take(self, places: _Places, value: Any) -> None:
        """Share out what the handler returned for some items."""
        value = self._stacking.without_pads(value, len(places), self._handler)
        if len(places) == len(self.results):
            self.results = value  # whole, it crosses to another process as one buffer
            return
        results = check_results(value, len(places), self._handler)
        for place, result in zip(places, results, strict=True):
            self.results[place] = result

    def fail(self, places: _Places, error: BaseException) -> None:
        """The handler raised over the items of a call; those of others are answered.

        Raises:
            BaseException: The call was of the whole batch.
        """
        if len(places) == len(self.results):
            raise error
        raised = CallRaised(error)
        for place in places:
            self.results[place] = raised


def _in_rows(value: Any, count: int, handler: str) -> Any:
    """Results as a list, or as an array with as many rows."""
    if isinstance(value, Mapping):
        columns = {
            name: check_results(_as_array(each), count, f"{handler}: in {name!r}")
            for name, each in value.items()
        }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if type(value) is list and "torch" in sys.modules:
        return list(map(_as_array, value))
    return _as_array(value)


def _as_array(value: Any) -> Any:
    """A tensor as an array of NumPy's, from wherever it is; anything else as it is.

    A row of a tensor would be pickled with all the others.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    if value.dtype is torch.bfloat16:  # which NumPy does not have
        value = value.float()
    return value.numpy(force=True)
