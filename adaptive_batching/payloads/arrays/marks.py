"""What stands beside an array in an `Annotated`: its shape, its elements' type, its padding."""

import typing
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

NUMBERS = "biuf"  # bools, integers, unsigned integers and floats
_ALIASES: Any = getattr(typing, "TypeAliasType", ())


class Shape:
    """How long each dimension of an array is: `Annotated[np.ndarray, Shape(28, None)]`.

    Args:
        lengths: Of the dimensions in turn; None for any length.

    Raises:
        ValueError: A length is negative.
    """

    def __init__(self, *lengths: int | None) -> None:
        if any(each is not None and each < 0 for each in lengths):
            raise ValueError(f"shape: expected lengths of 0 or more, or None, got {lengths}")
        self.lengths = lengths

    def __repr__(self) -> str:
        return f"Shape({', '.join(map(str, self.lengths))})"


class Padded:
    """Items differ in the length of one axis, and are padded to the longest of their batch.

    Where `pad_costs` are declared, they are padded to the next of them instead.

    `Annotated[np.ndarray, Shape(None, 80), Padded(axis=0)]` is for a handler that takes one array;
    a parameter of it that is called `lengths` gets what the items' own lengths were.

    Args:
        axis: Which axis of an item; its length in `Shape` is None.
        value: What is put behind the shorter items.

    Raises:
        ValueError: The axis is negative.
    """

    def __init__(self, axis: int = 0, value: float = 0) -> None:
        if axis < 0:
            raise ValueError(f"axis: expected the number of an axis, from 0, got {axis}")
        self.axis = axis
        self.value = value

    def __repr__(self) -> str:
        return f"Padded(axis={self.axis}, value={self.value})"


class DType:
    """The type of the elements of an array: `Annotated[np.ndarray, DType("float32")]`.

    Args:
        dtype: Whatever `numpy.dtype` takes.

    Raises:
        TypeError: They are no numbers.
    """

    def __init__(self, dtype: "DTypeLike") -> None:
        import numpy as np  # noqa: PLC0415  only where there are arrays

        self.dtype = np.dtype(dtype).newbyteorder("=")
        if self.dtype.kind not in NUMBERS:
            raise TypeError(f"dtype: expected bools, integers or floats, got {self.dtype}")

    def __repr__(self) -> str:
        return f"DType({self.dtype.name!r})"


def split_annotation(hint: Any) -> tuple[Any, list[Any]]:
    """A type without aliases, and the marks that stand beside it in an `Annotated`.

    From Python 3.12 on `type Vector = ...` makes an alias, and NumPy's `NDArray` may be one.
    """
    marks: list[Any] = []
    while True:
        alias, arguments = get_origin(hint) or hint, get_args(hint)
        if alias is Annotated:
            hint, *own = arguments
            marks = [*own, *marks]
        elif isinstance(alias, _ALIASES):
            hint = alias.__value__[arguments] if arguments else alias.__value__
        else:
            return hint, marks
