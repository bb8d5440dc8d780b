"""The elements of a tensor, row after row: as the text of a JSON array, or as bytes.

Tensors whose first dimension is the batch are joined by putting one after the other, so each must
hold exactly the elements that its shape says: one too few would be taken from its neighbour.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from math import prod
from struct import Struct

import numpy as np

from adaptive_batching.wire.pieces import Pieces, cut, size_of, whole
from adaptive_batching.wire.splice import NotCuttable, Raw, elements, joined

BYTES = "BYTES"
_ITEM_SIZE = {
    "BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2,
    "INT32": 4, "INT64": 8, "FP16": 2, "BF16": 2, "FP32": 4, "FP64": 8,
}  # fmt: skip
_LENGTH = Struct("<I")
_EMPTY = re.compile(rb"\[\s*\]")


def text_layout(text: bytes, shape: Sequence[int]) -> str:
    """How an array is written: `flat`, or `nested` as its shape is.

    Raises:
        NotCuttable: It does not hold as many elements as its shape says.
    """
    if b'"' in text or b"{" in text:  # commas and brackets within strings are no structure
        return "nested" if _is_nested(text, shape) else "flat"
    commas, brackets = text.count(b","), text.count(b"[")
    if text[:1] != b"[" or commas + 1 != prod(shape):
        raise _wrong_shape(shape)
    if brackets == 1 and commas:
        return "flat"
    if _EMPTY.search(text):  # no element is as many commas as one
        raise _wrong_shape(shape)
    if brackets == 1:
        return "flat"
    if brackets != _brackets(shape) or len(elements(text)) != shape[0]:
        raise _wrong_shape(shape)
    return "nested"


def check_bytes(data: Pieces, datatype: str, shape: Sequence[int]) -> None:
    """See whether they are the elements of such a tensor.

    Raises:
        NotCuttable: They are not as many as its shape says, or of an unknown type.
    """
    if datatype == BYTES:
        if sum(1 for _ in _strings(whole(data))) != prod(shape):
            raise _wrong_shape(shape)
    elif datatype not in _ITEM_SIZE:
        raise NotCuttable(f"expected a data type of the protocol, got {datatype}")
    elif size_of(data) != prod(shape) * _ITEM_SIZE[datatype]:
        raise _wrong_shape(shape)


def cut_text(text: bytes, shape: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
    """Cut an array, flat or nested, into arrays of so many rows each.

    Raises:
        NotCuttable: It has not a row for each of them.
    """
    if numbers := _cut_numbers(text, shape, sizes):
        return numbers
    parts = elements(text)
    if len(parts) == shape[0] and (len(shape) == 1 or _is_list(parts[0])):
        row = 1
    elif len(parts) == prod(shape):
        row = prod(shape[1:])
    else:
        raise _wrong_shape(shape)
    return [joined(parts[begin * row : end * row]) for begin, end in _spans(sizes)]


def cut_bytes(
    data: Pieces, datatype: str, shape: Sequence[int], sizes: Iterable[int]
) -> list[Pieces]:
    """Cut bytes into those of so many rows each.

    Raises:
        NotCuttable: They are not as many as its shape says, or of an unknown type.
    """
    row = prod(shape[1:])
    if datatype == BYTES:
        ends = [0, *_strings(whole(data))]
        if len(ends) != prod(shape) + 1:
            raise _wrong_shape(shape)
        return cut(data, [ends[end * row] - ends[begin * row] for begin, end in _spans(sizes)])
    check_bytes(data, datatype, shape)
    row *= _ITEM_SIZE[datatype]
    return cut(data, [row * size for size in sizes])


def join_texts(texts: Iterable[bytes]) -> bytes:
    """Make one array of several that are written alike."""
    return joined([text[1:-1] for text in texts])


def _cut_numbers(text: bytes, shape: Sequence[int], sizes: Iterable[int]) -> list[bytes]:
    """Cut a flat array of numbers, which most are, at its commas; nothing if it is another."""
    if b'"' in text or b"{" in text or text.count(b"[") != 1:
        return []
    commas = np.flatnonzero(np.frombuffer(text, np.uint8) == ord(","))
    if len(commas) + 1 != prod(shape):
        return []
    row, rows = prod(shape[1:]), shape[0]
    ends = [commas[row * end - 1] if end < rows else len(text) - 1 for end in accumulate(sizes)]
    return [b"[" + text[begin + 1 : end] + b"]" for begin, end in pairwise([0, *ends])]


def _spans(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    return pairwise(accumulate(sizes, initial=0))


def _is_nested(text: Raw, shape: Sequence[int]) -> bool:
    parts = elements(text)
    scalars = not any(map(_is_list, parts))
    if scalars and len(parts) == prod(shape):
        return False
    inner = shape[1:]
    if len(parts) != shape[0] or not inner or scalars:
        raise _wrong_shape(shape)
    if any(_is_nested(part, inner) != (len(inner) > 1) for part in parts):
        raise _wrong_shape(shape)
    return True


def _is_list(part: Raw) -> bool:
    return bytes(part).startswith(b"[")


def _brackets(shape: Sequence[int]) -> int:
    """How many arrays there are in a nested one."""
    count = arrays = 1
    for size in shape[:-1]:
        arrays *= size
        count += arrays
    return count


def _strings(data: memoryview) -> Iterator[int]:
    """Where each string ends; before it stand its length and its bytes."""
    end = 0
    while end < len(data):
        if end + _LENGTH.size > len(data):
            raise NotCuttable("expected the length of a string, got the end of the tensor")
        end += _LENGTH.size + _LENGTH.unpack_from(data, end)[0]
        yield end
    if end > len(data):
        raise NotCuttable("expected a string, got the end of the tensor")


def _wrong_shape(shape: Sequence[int]) -> NotCuttable:
    return NotCuttable(f"expected the elements of shape {list(shape)}, got another number of them")
