"""Bodies that hold several items, or several results, in JSON, MessagePack or `.npy`."""

from collections.abc import Sequence
from typing import Any

import msgspec

from adaptive_batching.errors import BatchFunctionError, InvalidItem, JobTooLarge, MalformedBody
from adaptive_batching.payloads.arrays import npy
from adaptive_batching.payloads.codecs import Codec
from adaptive_batching.wire import msgpack, splice

_LIST_MARKS = {Codec.JSON: b"[", Codec.MSGPACK: bytes([*range(0x90, 0xA0), 0xDC, 0xDD])}
_ELEMENTS = {Codec.JSON: splice.elements, Codec.MSGPACK: msgpack.elements}


def cut(codec: Codec, body: bytes, most: int) -> list[bytes]:
    """Cut a list into the bodies of its items; those of an array are its rows.

    The items themselves are not looked at: each is validated where it is read.

    Args:
        codec: How the list is written.
        body: The list.
        most: Items that it may have.

    Raises:
        JobTooLarge: It has more.
        MalformedBody: It can't be read.
        InvalidItem: It is no list.
    """
    items = _rows(body) if codec is Codec.NPY else _elements(codec, body)
    if len(items) > most:
        raise JobTooLarge(f"expected at most {most} items in one request, got {len(items)}")
    if codec is Codec.NPY:
        return _bodies_of(items)
    return [bytes(item) for item in items]


def join(codec: Codec, results: Sequence[bytes]) -> bytes:
    """Make one body of the bodies of results.

    Raises:
        BatchFunctionError: They are arrays of different shapes or dtypes.
    """
    if codec is Codec.JSON:
        return splice.joined(results)
    if codec is Codec.MSGPACK:
        return msgspec.msgpack.encode([msgspec.Raw(result) for result in results])
    return _stacked([npy.load(result) for result in results])


def _elements(codec: Codec, body: bytes) -> Sequence[Any]:
    try:
        return _ELEMENTS[codec](body, bounded=True)
    except splice.NotCuttable as error:
        begin = body.lstrip()[:1] if codec is Codec.JSON else body[:1]
        if begin and begin not in _LIST_MARKS[codec] and _is_one_value(codec, body):
            raise InvalidItem("$", "expected a list of items, got another value") from None
        raise MalformedBody(str(error)) from None


def _is_one_value(codec: Codec, body: bytes) -> bool:
    decode: Any = msgspec.json.decode if codec is Codec.JSON else msgspec.msgpack.decode
    try:
        decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _rows(body: bytes) -> Any:
    array = npy.load(body)
    if not array.shape:
        raise InvalidItem("$", "expected an array with one row for each item, got a number")
    return array


def _bodies_of(rows: Any) -> list[bytes]:
    """Rows as `.npy`, whose head is the same for all."""
    if not len(rows):
        return []
    first = npy.dump(rows[0].copy())  # of a row that is not contiguous the order would be another
    head = first[: len(first) - rows[0].nbytes]
    return [head + row.tobytes() for row in rows]


def _stacked(results: Sequence[Any]) -> bytes:
    kinds = {(result.shape, result.dtype) for result in results}
    if len(kinds) > 1:
        shown = " and ".join(sorted(f"{shape} of {dtype}" for shape, dtype in kinds)[:2])
        raise BatchFunctionError(f"expected results that make one array, got some of {shown}")
    return npy.stacked(results)
