"""The elements of a tensor, row after row: as the text of a JSON array, or as bytes.

Tensors whose first dimension is the batch are joined by putting one after the other, so each must
hold exactly the elements that its shape says: one too few would be taken from its neighbour.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from math import prod
from struct import Struct

import msgspec
import numpy as np

from adaptive_batching.wire.pieces import Pieces, cut, size_of, whole
from adaptive_batching.wire.splice import NotCuttable, count, elements, joined

BYTES = "BYTES"
_ITEM_SIZE = {
    "BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2,
    "INT32": 4, "INT64": 8, "FP16": 2, "BF16": 2, "FP32": 4, "FP64": 8,
}  # fmt: skip
_LENGTH = Struct("<I")
_SPACES = b" \t\r\n"
_MOST_ESCAPES = 2**20


def text_layout(text: bytes, shape: Sequence[int]) -> str:
    """How an array is written: `flat`, or `nested` as its shape is.

    Raises:
        NotCuttable: It does not hold as many elements as its shape says.
    """
    if b'"' in text:  # commas and brackets within strings are no structure
        text = _without_strings(text, prod(shape))
    commas, brackets = count(text, b","), count(text, b"[")
    if text[:1] != b"[" or commas + 1 != prod(shape) or b"{" in text:
        raise _wrong_shape(shape)
    if brackets == 1 and commas:
        return "flat"
    text = text.translate(None, _SPACES)
    if b"[]" in text:  # no element is as many commas as one
        raise _wrong_shape(shape)
    if brackets == 1:
        return "flat"
    rows = elements(msgspec.Raw(text), bounded=True) if brackets == _brackets(shape) else ()
    if len(rows) != shape[0]:
        raise _wrong_shape(shape)
    return "nested"


def check_bytes(data: Pieces, datatype: str, shape: Sequence[int]) -> None:
    """See whether they are the elements of such a tensor.

    Raises:
        NotCuttable: They are not as many as its shape says, or of an unknown type.
    """
    if datatype == BYTES:
        if len(_ends(data, prod(shape))) != prod(shape):
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
    if len(parts) == shape[0] and (len(shape) == 1 or bytes(parts[0])[:1] == b"["):
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
        ends = [0, *_ends(data, prod(shape))]
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


def _without_strings(text: bytes, most: int) -> bytes:
    """Put a number in the place of each string of JSON, of which there may be at most so many."""
    if b"\\" in text:
        if count(text, b"\\") > _MOST_ESCAPES:
            raise NotCuttable(f"expected at most {_MOST_ESCAPES} escapes in strings")
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if count(text, b'"') > 2 * most:
        raise NotCuttable(f"expected at most {most} strings")
    return b"0".join(text.split(b'"')[::2])


def _brackets(shape: Sequence[int]) -> int:
    """How many arrays there are in a nested one."""
    count = arrays = 1
    for size in shape[:-1]:
        arrays *= size
        count += arrays
    return count


def _ends(data: Pieces, most: int) -> list[int]:
    """Where each string ends, of so many at most; before it stand its length and its bytes."""
    ends: list[int] = []
    text, end = whole(data), 0
    while end < len(text) and len(ends) < most:
        if end + _LENGTH.size > len(text):
            raise NotCuttable("expected the length of a string, got the end of the tensor")
        end += _LENGTH.size + _LENGTH.unpack_from(text, end)[0]
        ends.append(end)
    if end != len(text):
        raise NotCuttable("expected strings up to the end of the tensor")
    return ends


def _wrong_shape(shape: Sequence[int]) -> NotCuttable:
    return NotCuttable(f"expected the elements of shape {list(shape)}, got another number of them")
