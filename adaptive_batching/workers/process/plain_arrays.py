"""Large plain arrays in shared memory, told by their places instead of being pickled.

NumPy pickles an array with Python code, and behind the copy of a large array whatever this code
touches has left the caches: for 600 KiB it took longer than the copies themselves.

    u32 2**32 - 1 | u32 returned | places | returned blocks, as in `layout`

The places are a list: for each array the start of its block of shared memory, or its bytes if
there was no room for them, then its bytes' number, its format and its shape. Both ends are the
same interpreter, so marshal can write it, in half the time of pickle.
"""

import marshal
from functools import cache
from typing import Any

from adaptive_batching.wire.frames import MAX_LENGTH, Part
from adaptive_batching.workers.process.frame_layout import (
    WORTH_SHARING,
    MalformedFrame,
    without_returned,
)
from adaptive_batching.workers.process.shared_memory import OutOfBounds, SharedMemory, numpy

ONLY_ARRAYS = b"\xff\xff\xff\xff"
"""What such a payload begins with: as many buffers as no other has."""
_NOTHING_RETURNED = ONLY_ARRAYS + bytes(4)
_NUMBERS = "?bBhHiIlLqQefd"  # that a memoryview, too, knows by these letters
_LARGE = 4096  # bytes; below, a pickle costs less than a block

Placed = tuple[int, int, str, tuple[int, ...]]
"""An array that has a block: its start and bytes, the array's format and shape."""


def begins_with_array(value: object) -> bool:
    """Whether the value is a list that may be one of plain arrays; quickly, for most are not."""
    # by its name, for NumPy need not be there, and to look for it, or for an attribute, is slower
    return type(value) is list and bool(value) and type(value[0]).__name__ == "ndarray"


def lay_out_arrays(arrays: list[Any], memory: SharedMemory) -> list[Part] | None:
    """The parts of one payload; None unless all are large plain arrays.

    Such are contiguous and writable numbers, of no subclass, each array once.
    """
    return _copied(arrays, memory) if _are_plain(arrays) else None


def find_untouched(arrays: list[Any], memory: SharedMemory) -> list[Placed] | None:
    """Where arrays are, if each is a whole block that the other end has lent."""
    if not _are_plain(arrays):
        return None
    placed: list[Placed] = []
    for array in arrays:
        start, size = memory.start_of(array.base), array.nbytes
        if start is None or size != array.base.nbytes:
            return None
        placed.append((start, size, array.dtype.char, array.shape))
    return placed if len({start for start, *_ in placed}) == len(placed) else None


def hand_back(placed: list[Placed], memory: SharedMemory) -> list[Part]:
    """The parts of the payload that leaves arrays where they are, if nothing here sees them.

    Otherwise they are copied: what sees them may write to them.
    """
    if memory.hand_back([start for start, *_ in placed], sum([size for _, size, *_ in placed])):
        return _parts(placed)
    ndarray = numpy().ndarray
    arrays = [ndarray(shape, kind, memory.seen(start, size)) for start, size, kind, shape in placed]
    return _copied(arrays, memory)


def find_arrays(payload: bytearray, memory: SharedMemory | None) -> list[Any]:
    """The arrays of a payload, laid over their blocks.

    Raises:
        MalformedFrame: It names bytes that are not there.
    """
    view = without_returned(payload, memory)
    if memory is None:
        raise MalformedFrame("expected no shared memory, got arrays in it")
    ndarray = numpy().ndarray
    try:
        return [
            ndarray(
                shape, kind, memory.borrow(place, size) if type(place) is int else bytearray(place)
            )
            for place, size, kind, shape in marshal.loads(view)  # noqa: S302 - our own child's
        ]
    except OutOfBounds as error:
        raise MalformedFrame(str(error)) from None


def _are_plain(arrays: list[Any]) -> bool:
    array_type, plain, size = numpy().ndarray, _plain_dtypes(), 0
    for array in arrays:
        if type(array) is not array_type or id(array.dtype) not in plain:
            return False
        if array.nbytes < _LARGE or not array.flags.carray:  # aligned, contiguous and writable
            return False
        size += array.nbytes
    if not WORTH_SHARING <= size <= MAX_LENGTH:  # without room, they have to fit into a frame
        return False
    return len(arrays) == 1 or len(set(map(id, arrays))) == len(arrays)  # a pickle keeps them one


@cache
def _plain_dtypes() -> frozenset[int]:
    """Those that NumPy has one object of each: the quickest way to tell them from their like."""
    return frozenset(id(numpy().dtype(each)) for each in _NUMBERS)


def _copied(arrays: list[Any], memory: SharedMemory) -> list[Part]:
    places: list[Any] = []
    for array in arrays:
        content = memoryview(array).cast("B")
        start = memory.lend(content)
        places.append(
            (content if start is None else start, len(content), array.dtype.char, array.shape)
        )
    return _parts(places)


def _parts(arrays: list[Any]) -> list[Part]:
    return [_NOTHING_RETURNED, marshal.dumps(arrays)]
