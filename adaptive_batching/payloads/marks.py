"""What stands beside an array in an `Annotated`: its shape, and the type of its elements."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

NUMBERS = "biuf"  # bools, integers, unsigned integers and floats


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


class DType:
    """Of which type the elements of an array are: `Annotated[np.ndarray, DType("float32")]`.

    Args:
        dtype: Whatever `numpy.dtype` takes.

    Raises:
        TypeError: They are no numbers.
    """

    def __init__(self, dtype: "DTypeLike") -> None:
        import numpy as np  # noqa: PLC0415  not for those who have no arrays

        self.dtype = np.dtype(dtype).newbyteorder("=")
        if self.dtype.kind not in NUMBERS:
            raise TypeError(f"dtype: expected bools, integers or floats, got {self.dtype}")

    def __repr__(self) -> str:
        return f"DType({self.dtype.name!r})"
