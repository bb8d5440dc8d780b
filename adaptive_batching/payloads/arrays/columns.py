"""What an annotation says of one array of an item or of a result, and how a batch's are stacked."""

import math
import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from adaptive_batching.payloads.arrays.array_type import ArrayType, number_type
from adaptive_batching.payloads.arrays.fields import ArrayFields
from adaptive_batching.payloads.arrays.marks import Padded, Shape, split_annotation

if TYPE_CHECKING:  # worker processes stack arrays, and most of them without the core
    from adaptive_batching.core import Costs


@dataclass(frozen=True, slots=True)
class Column:
    """One array of each item, and how those of a batch are stacked.

    Attributes:
        kind: Its type.
        padded: Which axis is padded; None for none.
        tensor: Whether the handler gets a tensor of PyTorch.
        costs: Say to which lengths the longest item is padded; None if others are padded to it.
    """

    kind: ArrayType
    padded: Padded | None
    tensor: bool
    costs: "Costs | None" = None

    @classmethod
    def of(cls, hint: Any) -> "Column | None":
        """What an annotation of a handler's parameter says; None if it is of no array.

        Raises:
            TypeError: It does not say enough of one item, or can be read in two ways.
        """
        bare, marks = split_annotation(hint)
        tensor = _is_tensor_type(bare)
        if not tensor and (get_origin(bare) or bare) is not np.ndarray:
            return None
        kind = _one_item(np.ndarray if tensor else bare, marks)
        padded = next((each for each in marks if isinstance(each, Padded)), None)
        _check(hint, bare, kind, padded)
        return cls(kind, padded, tensor)

    def layout(self, array: Any) -> Hashable:
        """What two arrays have in common that can be stacked."""
        if self.padded is None:
            return array.dtype.num, array.shape
        axis, shape = self.padded.axis, array.shape
        return array.dtype.num, shape[:axis], shape[axis + 1 :]

    def stack(self, arrays: Sequence[Any]) -> Any:
        """Copy arrays into one, in which each is a row."""
        shape = list(arrays[0].shape)
        if self.padded is not None:
            longest = max(each.shape[self.padded.axis] for each in arrays)
            length = longest if self.costs is None else int(self.costs.rounded(longest))
            shape[self.padded.axis] = length
        whole = _allocated((len(arrays), *shape), arrays[0].dtype, tensor=self.tensor)
        rows = whole.numpy() if self.tensor else whole
        if self.padded is None:
            np.stack(arrays, out=rows)
            return whole
        before = (slice(None),) * self.padded.axis
        for number, array in enumerate(arrays):
            end = array.shape[self.padded.axis]
            rows[(number, *before, slice(end))] = array
            rows[(number, *before, slice(end, None))] = self.padded.value
        return whole

    def own_lengths(self, arrays: Sequence[Any]) -> Any:
        """Those of the padded axis."""
        assert self.padded is not None
        lengths = np.array([each.shape[self.padded.axis] for each in arrays], np.int64)
        return _torch().from_numpy(lengths) if self.tensor else lengths


@dataclass(frozen=True, slots=True)
class RowType(ArrayType):
    """A row of a result, of which no shape is declared: it may be one number."""

    @property
    def nested(self) -> Any:
        """See `ArrayType.nested`."""
        return number_type(self.dtype) | list[Any]

    @property
    def read_as(self) -> Any:
        """See `ArrayType.read_as`."""
        return number_type(self.dtype) | ArrayType(None, None).read_as


def row_type(hint: Any) -> ArrayType | ArrayFields | None:
    """What one row is of the result that an annotation speaks of; None if it does not say."""
    bare, _ = split_annotation(hint)
    if get_origin(bare) is dict and get_args(bare)[0] is str:
        every = _row(get_args(bare)[1])
        return None if every is None else ArrayFields({}, every, "arrays")
    if is_typeddict(bare):
        hints = get_type_hints(bare, include_extras=True)
        rows = {name: row for name, each in hints.items() if (row := _row(each))}
        return ArrayFields(rows, None, bare.__name__) if rows.keys() == hints.keys() else None
    row = _row(hint)
    return row if row is not None and (row.lengths, row.dtype) != (None, None) else None


def _row(hint: Any) -> ArrayType | None:
    bare, marks = split_annotation(hint)
    if _is_tensor_type(bare):
        bare = np.ndarray
    if (get_origin(bare) or bare) is not np.ndarray:
        return None
    kind = _one_item(bare, marks)
    is_shaped = any(isinstance(each, Shape) for each in marks)
    return kind if is_shaped else RowType(None, kind.dtype)


def _one_item(bare: Any, marks: list[Any]) -> ArrayType:
    kind = ArrayType.of(Annotated[bare, None, *marks])
    assert kind is not None
    return kind


def _check(hint: Any, bare: Any, kind: ArrayType, padded: Padded | None) -> None:
    """See to it that an annotation says what one item is, and can be read in one way only.

    Raises:
        TypeError: It doesn't.
    """
    lengths, named = kind.lengths, f"got {hint}"
    own = ArrayType.of(bare)
    if own is not None and own.lengths is not None:
        msg = "expected the shape of one item as Annotated[..., Shape(512)], not as that of an"
        raise TypeError(f"{msg} np.ndarray, which could be meant for the whole batch, {named}")
    if lengths is None and kind.dtype is None:
        name = "torch.Tensor" if _is_tensor_type(bare) else "np.ndarray"
        forms = f'Annotated[{name}, Shape(512), DType("float32")], or DType alone for any shape'
        msg = f"expected what one item is of the arrays to stack: {forms}, or list[{name}] for a"
        raise TypeError(f"{msg} list of arrays; {named}")
    if padded is not None:
        fault = _fault_of_padding(padded, kind)
        if fault:
            raise TypeError(f"{fault} beside {padded}, {named}")
    if lengths and lengths[0] is None and (padded is None or padded.axis != 0):
        rest = ", ".join(map(str, lengths[1:]))
        msg = (
            f"expected the shape of one item, without the batch: Shape({rest}), or Padded(axis=0)"
            " beside it if the first axis of the items themselves differs in length"
        )
        raise TypeError(f"{msg}, {named}")


def _fault_of_padding(padded: Padded, kind: ArrayType) -> str:
    """What items of a type would need to be padded so; empty if nothing."""
    axis, lengths = padded.axis, kind.lengths
    if lengths is None:
        return "expected a Shape of one item with None for the padded axis, as Shape(None, 80),"
    if axis >= len(lengths):
        return f"expected one of the {len(lengths)} axes of {Shape(*lengths)}, counted from 0,"
    if lengths[axis] is not None:
        shape = Shape(*lengths[:axis], None, *lengths[axis + 1 :])
        return f"expected None for the padded axis in the shape of one item, as in {shape}"
    if kind.dtype is not None and not _holds(kind.dtype, padded.value):
        return f"expected a value that {kind.dtype} can hold"
    return ""


def _holds(dtype: np.dtype[Any], value: float) -> bool:
    """Whether an array can hold a number, which a float may round."""
    try:
        with np.errstate(all="ignore"):
            held = np.array(value).astype(dtype)
        return math.isinf(held) == math.isinf(value) if dtype.kind == "f" else bool(held == value)
    except (TypeError, ValueError, OverflowError):
        return False


def _allocated(shape: tuple[int, ...], dtype: Any, *, tensor: bool) -> Any:
    """Room for stacked arrays; a tensor's is pinned where there is a GPU to which it may go."""
    if not tensor:
        return np.empty(shape, dtype)
    torch = _torch()
    if not torch.cuda.is_available():
        return torch.from_numpy(np.empty(shape, dtype))
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    return torch.empty(shape, dtype=kind, pin_memory=True)


def _is_tensor_type(kind: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and kind is getattr(torch, "Tensor", None)


def _torch() -> Any:
    return import_module("torch")
