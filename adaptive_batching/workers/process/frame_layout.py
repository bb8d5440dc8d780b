"""Where in one frame, or in shared memory, a pickle and its large buffers are.

    u32 buffers | u32 returned | layout, if there are buffers | pickle | buffers, aligned
        | u64 start of each block of shared memory that is returned

The layout is the u64 length of the pickle, then for each buffer its u64 length and its place: the
u64 start of its block of shared memory, or 2**64 - 1 if it is in the frame.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name for it is lower case

from adaptive_batching.wire.frames import Part
from adaptive_batching.workers.process.shared_memory import OutOfBounds, SharedMemory

_COUNTS = Struct("<II")
ONLY_A_PICKLE = _COUNTS.pack(0, 0)
"""What a payload without buffers begins with; most have none, and need no more of this module."""
_IN_FRAME = 2**64 - 1
_ALIGNMENT = 16  # what malloc gives the payload itself, and as much as NumPy asks for
WORTH_SHARING = 2**16  # bytes of all buffers; below, copying costs less than keeping account


class MalformedFrame(ValueError):
    """A payload that is not laid out like this; its sender is broken."""


def lay_out(
    pickled: bytes, buffers: Sequence[memoryview], memory: SharedMemory | None
) -> list[Part]:
    """The parts of one payload; in the frame is what is not worth sharing or finds no room."""
    lengths = list(map(len, buffers))
    starts: Sequence[int | None] = [None] * len(buffers)
    if memory is not None and sum(lengths) >= WORTH_SHARING:
        starts = list(map(memory.lend, buffers))
    layout = [len(pickled)]
    for length, start in zip(lengths, starts, strict=True):
        layout += (length, _IN_FRAME if start is None else start)
    places = _numbers(len(layout)).pack(*layout)
    parts: list[Part] = [_COUNTS.pack(len(buffers), 0), places, pickled]
    end = _COUNTS.size + len(places) + len(pickled)
    for buffer, start in zip(buffers, starts, strict=True):
        if start is None:
            padding = -end % _ALIGNMENT
            parts += (bytes(padding), buffer)
            end += padding + len(buffer)
    return parts


def returning(parts: list[Part], starts: Sequence[int]) -> list[Part]:
    """Add the blocks of shared memory that nothing on this side sees any more."""
    if not starts:
        return parts
    counts, *others = parts
    buffers, _ = _COUNTS.unpack(counts)
    return [_COUNTS.pack(buffers, len(starts)), *others, _numbers(len(starts)).pack(*starts)]


def find(
    payload: bytearray, memory: SharedMemory | None
) -> tuple[memoryview, Sequence[memoryview]]:
    """The pickle and the buffers of a payload, uncopied; takes back what it returns.

    Raises:
        MalformedFrame: It names bytes that are not there.
    """
    view = without_returned(payload, memory)
    (buffers, _) = _COUNTS.unpack_from(payload)
    if not buffers:
        return view, ()
    try:
        return _find(view, buffers, memory)
    except (StructError, OutOfBounds) as error:
        raise MalformedFrame(str(error)) from None


def without_returned(payload: bytearray, memory: SharedMemory | None) -> memoryview:
    """What is between the counts and the returned blocks of a payload; takes these back.

    Raises:
        MalformedFrame: There are less of them than it says, or they were not lent.
    """
    view = memoryview(payload)
    try:
        _, returned = _COUNTS.unpack_from(view)
        if not returned:
            return view[_COUNTS.size :]
        starts = _numbers(returned)
        end = len(view) - starts.size
        if end < _COUNTS.size or memory is None:
            msg = f"expected less than {returned} returned blocks in {len(view)} bytes"
            raise MalformedFrame(msg)
        memory.take_back(starts.unpack_from(view, end))
    except (StructError, OutOfBounds) as error:
        raise MalformedFrame(str(error)) from None
    return view[_COUNTS.size : end]


def _find(
    view: memoryview, count: int, memory: SharedMemory | None
) -> tuple[memoryview, list[memoryview]]:
    layout = _numbers(1 + 2 * count)
    length, *places = layout.unpack_from(view)
    start = layout.size
    end = start + length
    pickled = view[start:end]
    buffers: list[memoryview] = []
    for size, place in zip(places[::2], places[1::2], strict=True):
        if place == _IN_FRAME:
            start = end + -(_COUNTS.size + end) % _ALIGNMENT
            end = start + size
            buffers.append(view[start:end])
        elif memory is not None:
            buffers.append(memory.borrow(place, size))
        else:
            msg = f"expected no shared memory, got {size} bytes at {place}"
            raise MalformedFrame(msg)
    if end > len(view):
        msg = f"expected {_COUNTS.size + end} bytes, got {_COUNTS.size + len(view)}"
        raise MalformedFrame(msg)
    return pickled, buffers


@lru_cache
def _numbers(count: int) -> Struct:
    return Struct(f"<{count}Q")
