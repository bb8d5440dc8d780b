"""Arrays as a declared type: which dtype, and which shape.

    Annotated[np.ndarray, Shape(28, 28), DType("float32")]
    NDArray[np.float32]
    np.ndarray[tuple[int, Literal[3]], np.dtype[np.uint8]]

are all understood. In JSON and MessagePack an array is its nested lists.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import msgspec
import numpy as np

from adaptive_batching.errors import InvalidItem
from adaptive_batching.payloads.arrays.marks import NUMBERS, DType, Shape, split_annotation

_MOST_DIMENSIONS = 64  # that NumPy knows
_FITTING = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}  # what can become what, without a loss


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A declared type of arrays.

    Attributes:
        lengths: Of each dimension, None for any length; None for any number of dimensions.
        dtype: Of its elements; None for any numbers.
    """

    is_one_array: ClassVar[bool] = True

    lengths: tuple[int | None, ...] | None
    dtype: np.dtype[Any] | None

    @classmethod
    def of(cls, hint: Any) -> "ArrayType | None":
        """What an annotation says of arrays; None if it is of something else.

        Raises:
            TypeError: It is of arrays that hold no numbers.
        """
        kind, marks = split_annotation(hint)
        if isinstance(kind, type) and issubclass(kind, np.generic):
            return cls((), DType(kind).dtype)
        if (get_origin(kind) or kind) is not np.ndarray:
            return None
        lengths, dtype = _of_numpy(get_args(kind))
        for mark in marks:
            lengths = mark.lengths if isinstance(mark, Shape) else lengths
            dtype = mark.dtype if isinstance(mark, DType) else dtype
        return cls(lengths, dtype)

    def __str__(self) -> str:
        shape = "" if self.lengths is None else f" of shape {_shown(self.lengths)}"
        return f"array{shape}" + ("" if self.dtype is None else f" of {self.dtype.name}")

    @property
    def nested(self) -> Any:
        """The type of its nested lists, as msgspec knows it."""
        if self.lengths is None:
            return list[Any]
        kind = number_type(self.dtype)
        for length in reversed(self.lengths):
            kind = list[kind]  # type: ignore[valid-type]
            if length is not None:
                kind = Annotated[kind, msgspec.Meta(min_length=length, max_length=length)]
        return kind

    @property
    def read_as(self) -> Any:
        """The type of nested lists of any lengths, and without a string at any depth.

        NumPy would make all strings as long as the longest, and msgspec does not say how long a
        list is that is too long.
        """
        if self.lengths is None:
            return _NUMBERS_AT_ANY_DEPTH
        return replace(self, lengths=(None,) * len(self.lengths)).nested

    def from_lists(self, lists: Any) -> Any:
        """Make the array of lists that are as `read_as` says.

        Raises:
            InvalidItem: A list is longer or shorter than it should be, or it is not of numbers.
        """
        try:
            array = np.array(lists)
        except ValueError:
            _check_lengths(lists, self.lengths or (), "$")
            fault = f"expected {self}, got lists of several lengths side by side"
            raise InvalidItem("$", fault) from None
        try:
            return self.check(self._shaped(_converted(array, lists, self.dtype)))
        except InvalidItem:
            _check_lengths(lists, self.lengths or (), "$")
            raise
        except (ValueError, TypeError, ArithmeticError) as error:
            _check_lengths(lists, self.lengths or (), "$")
            raise InvalidItem("$", f"expected {self}, got something else: {error}") from None

    def _shaped(self, array: Any) -> Any:
        """Lists without an element don't say how long they would be further in."""
        if array.size or self.lengths is None:
            return array
        return array.reshape(array.shape + tuple(each or 0 for each in self.lengths[array.ndim :]))

    def from_item(self, item: Any) -> Any:
        """An array as it is; numbers and lists, which have no dtype yet, as what is declared.

        Raises:
            InvalidItem: It is not of this type.
        """
        if isinstance(item, np.ndarray | np.generic):
            return self.check(np.asarray(item))
        return self.from_lists(item)

    def from_result(self, result: Any) -> Any:
        """As an item, but floats of another precision become the declared ones.

        NumPy makes float64 of float32 and int64, so that a quotient is seldom what its operand was.

        Raises:
            InvalidItem: It is not of this type, or has a number too large for it.
        """
        if isinstance(result, np.ndarray | np.generic) and self.dtype is not None:
            own = result.dtype
            if own.kind == self.dtype.kind == "f" and own != self.dtype:
                result = _rounded(result, self.dtype)
        return self.from_item(result)

    def check(self, array: Any) -> Any:
        """Return an array in the machine's order of bytes if it is of this type.

        Raises:
            InvalidItem: It is not.
        """
        if array.dtype.kind not in NUMBERS:
            raise InvalidItem("$", f"expected numbers, got elements of {array.dtype}")
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if self.dtype is not None and array.dtype != self.dtype:
            raise InvalidItem("$", f"expected dtype {self.dtype}, got {array.dtype}")
        if self.lengths is not None and not _fits(array.shape, self.lengths):
            fault = f"expected shape {_shown(self.lengths)}, got {_shown(array.shape)}"
            raise InvalidItem("$", fault)
        return array if self.lengths != () else array[()]


def _check_lengths(lists: Any, lengths: tuple[int | None, ...], path: str) -> None:
    """Find the first list that is not as long as its dimension.

    Raises:
        InvalidItem: There is one.
    """
    if not lengths or not isinstance(lists, list | tuple):
        return
    first, *others = lengths
    if first not in {None, len(lists)}:
        raise InvalidItem(path, f"expected array of length {first}, got {len(lists)}")
    for index, each in enumerate(lists if others else ()):
        _check_lengths(each, tuple(others), f"{path}[{index}]")


def _converted(array: Any, lists: Any, dtype: np.dtype[Any] | None) -> Any:
    """With another dtype, if all numbers have a place in it."""
    if dtype is None or array.dtype == dtype:
        return array
    if array.size and array.dtype.kind not in _FITTING[dtype.kind]:
        raise InvalidItem("$", f"expected elements of {dtype}, got {array.dtype}")
    if dtype.kind != "f":
        return np.array(lists, dtype)  # from Python's integers: too large ones are refused
    with np.errstate(over="raise"):
        return array.astype(dtype)


def _rounded(floats: Any, dtype: np.dtype[Any]) -> Any:
    try:
        with np.errstate(over="raise"):
            return floats.astype(dtype)
    except FloatingPointError:
        most = np.finfo(dtype).max
        raise InvalidItem("$", f"expected numbers up to {most:g} for {dtype}, got larger") from None


def _of_numpy(arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """What `np.ndarray[shape, np.dtype[scalar]]` says."""
    if len(arguments) != 2:
        return None, None
    shape, dtype = arguments
    lengths = None
    dimensions = get_args(shape)
    if get_origin(shape) is tuple and Ellipsis not in dimensions:
        lengths = tuple(map(_length, dimensions))
    scalar = (get_args(dtype) or (Any,))[0]
    concrete = isinstance(scalar, type) and issubclass(scalar, np.generic)
    return lengths, DType(scalar).dtype if concrete and not _is_abstract(scalar) else None


def _length(dimension: Any) -> int | None:
    literal = get_args(dimension) if get_origin(dimension) is Literal else ()
    return literal[0] if len(literal) == 1 and isinstance(literal[0], int) else None


def _is_abstract(scalar: type[np.generic]) -> bool:
    return scalar in {np.generic, np.number, np.integer, np.floating, np.inexact}


def number_type(dtype: np.dtype[Any] | None) -> Any:
    """What an element may be, in JSON: what would overflow is found where it is."""
    if dtype is None:
        return int | float | bool
    if dtype.kind == "b":
        return bool
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)
        return float if dtype.itemsize >= 8 else Annotated[float, msgspec.Meta(ge=-most, le=most)]
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if most > np.iinfo(np.int64).max:  # beyond what msgspec can compare with
        return Annotated[int, msgspec.Meta(ge=least)]
    return Annotated[int, msgspec.Meta(ge=least, le=most)]


def _at_any_depth(number: Any) -> Any:
    """Lists of such numbers, of lists of them, and so on."""
    kind = number
    for _ in range(_MOST_DIMENSIONS - 1):
        kind = number | list[kind]  # type: ignore[valid-type]
    return list[kind]  # type: ignore[valid-type]


_NUMBERS_AT_ANY_DEPTH = _at_any_depth(number_type(None))


def _fits(shape: tuple[int, ...], lengths: tuple[int | None, ...]) -> bool:
    return len(shape) == len(lengths) and all(
        wanted in {None, length} for length, wanted in zip(shape, lengths, strict=True)
    )


def _shown(lengths: tuple[int | None, ...]) -> str:
    return f"({', '.join('any' if each is None else str(each) for each in lengths)})"
