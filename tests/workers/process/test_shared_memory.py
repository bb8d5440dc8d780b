"""Large arrays in memory that two processes share; here both ends are in one."""

import os
from contextlib import suppress
from struct import pack as raw

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptive_batching.workers.process.frame_layout import MalformedFrame, find, returning
from adaptive_batching.workers.process.serialization import pack, unpack
from adaptive_batching.workers.process.shared_memory import End, SharedMemory, created

SIZE = 2**20


@pytest.fixture
def ends():
    with created(SIZE) as fd:
        return SharedMemory(fd, End.PARENT), SharedMemory(fd, End.CHILD)


def send(value, sender):
    """The frame that arrives."""
    return bytearray(b"".join(returning(pack(value, sender), sender.end_message())))


def large(number):
    """An array of which five fit into one half."""
    return np.full(100_000, number, np.uint8)


def test_large_arrays_cross_beside_the_frame(ends):
    """In both directions; they arrive aligned and writable."""
    for sender, receiver in (ends, ends[::-1]):
        frame = send([large(1), large(2)], sender)
        assert len(frame) < 1000
        first, second = unpack(frame, receiver)
        assert np.array_equal(first, large(1))
        assert np.array_equal(second, large(2))
        assert first.flags.writeable
        assert first.flags.aligned


def test_a_steady_stream_uses_the_same_memory(ends):
    """What the receiver drops is told in its next message, and used again."""
    parent, child = ends
    for number in range(100):
        items = unpack(send([large(number)] * 3, parent), child)
        assert items[0][0] == number
        del items
        results = unpack(send([large(number)] * 3, child), parent)
        assert results[2][-1] == number
        del results
        assert parent.lend(memoryview(large(0))) == 0
        parent.end_message()
        parent.forget_message()


def test_memory_that_somebody_sees_is_not_used_again(ends):
    """A view of a view is enough; what finds no room goes in the frame, whole."""
    parent, child = ends
    kept = [unpack(send([large(number)], parent), child)[0][50_000:] for number in range(10)]
    assert [view[0] for view in kept] == list(range(10))
    assert len(send([large(1)], parent)) > 100_000
    del kept[3]
    unpack(send([], child), parent)
    assert len(send([large(1)], parent)) < 1000
    assert [view[-1] for view in kept] == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@settings(max_examples=40)
@given(st.data())
def test_nothing_that_is_seen_is_written_over(data):
    """Both ends send, keep and drop as they like; what they keep never changes."""
    with created(SIZE) as fd:
        ends = SharedMemory(fd, End.PARENT), SharedMemory(fd, End.CHILD)
    kept = []
    for number in range(data.draw(st.integers(1, 30))):
        sender, receiver = ends[:: 1 if number % 2 else -1]
        sizes = data.draw(st.lists(st.integers(5_000, 300_000), max_size=4))
        sent = [np.full(size, number, np.uint8) for size in sizes]
        kept += [(number, array) for array in unpack(send(sent, sender), receiver)]
        kept = [pair for pair in kept if data.draw(st.booleans())]
        assert all(np.all(array == when) for when, array in kept)
    del kept
    for sender, receiver in (ends, ends[::-1], ends):
        unpack(send([], sender), receiver)
    for sender in ends:
        assert sender.lend(memoryview(bytes(SIZE // 2))) is not None


def test_arrays_outlive_the_memory_that_they_came_in(ends):
    """The mapping goes with the last view."""
    parent, child = ends
    received = unpack(send([large(7)], child), parent)[0]
    before = len(os.listdir("/proc/self/fd"))
    del parent, child, ends
    assert received.sum() == 700_000
    del received
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_message_that_is_not_sent_takes_nothing(ends):
    """Neither the memory that it lends nor the news of what is free."""
    parent, child = ends
    items = unpack(send([large(1)], child), parent)
    del items
    send([large(2)] * 5, parent)
    parent.forget_message()
    assert len(send([large(2)] * 5, parent)) < 1000
    parent.forget_message()
    unpack(send([], parent), child)
    assert len(send([large(2)] * 5, child)) < 1000


def test_the_child_can_not_pull_memory_from_under_the_parent():
    """Reading behind the end of a file kills a process; this file keeps its size."""
    with created(SIZE) as fd, pytest.raises(PermissionError):
        os.ftruncate(fd, 0)


def test_no_memory_is_none():
    """Whoever wants none gets none."""
    with created(0) as fd:
        assert fd is None


# ------------------------------------------------------------------------------- broken senders


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (raw("<IIQQQ", 1, 0, 0, 100, 2**20), "between 524288 and 1048576, got 100 bytes at 1048"),
        (raw("<IIQQQ", 1, 0, 0, 2**62, 2**19), "between 524288 and 1048576, got 46116860"),
        (raw("<IIQQQ", 1, 0, 0, 2**63, 2**63), "between 524288 and 1048576"),
        (raw("<IIQQQ", 1, 0, 0, 1, 0), "between 524288 and 1048576, got 1 bytes at 0"),
        (raw("<IIQQQQQ", 2, 0, 0, 1, 2**19, 1, 2**19), "not in use, got 1 bytes at 524288"),
        (raw("<IIQQQ", 1, 0, 0, 100, 2**64 - 1), "expected 132 bytes, got 32"),
        (raw("<IIQQQ", 1, 0, 100, 0, 2**64 - 1), "expected 144 bytes, got 32"),
        (raw("<II", 2**32 - 2, 0), "requires a buffer of at least"),
        (raw("<II", 0, 2**32 - 1), "expected less than 4294967295 returned blocks in 8 bytes"),
        (raw("<IIQ", 0, 1, 64), "expected memory that was lent, got 64 back"),
        (b"", "requires a buffer of at least 8 bytes"),
    ],
)
def test_a_frame_that_names_what_is_not_there(frame, message, ends):
    """Nothing is read out of bounds; the message says what was expected."""
    parent, _ = ends
    with pytest.raises(MalformedFrame, match=message):
        unpack(bytearray(frame), parent)


@given(st.binary(max_size=80))
def test_garbage_is_malformed(frame):
    """Whatever is in the header, nothing else is raised before a pickle is read."""
    with created(SIZE) as fd:
        parent = SharedMemory(fd, End.PARENT)
    for memory in (parent, None):
        with suppress(MalformedFrame):
            pickled, buffers = find(bytearray(frame), memory)
            assert len(pickled) + sum(map(len, buffers)) <= len(frame) + SIZE
