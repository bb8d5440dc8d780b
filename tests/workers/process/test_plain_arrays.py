"""Large plain arrays between a parent and the servant of a worker; here both are in one process."""

import asyncio
import marshal
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptive_batching.workers.child import _framed
from adaptive_batching.workers.process.frame_layout import MalformedFrame, returning
from adaptive_batching.workers.process.plain_arrays import ONLY_ARRAYS
from adaptive_batching.workers.process.serialization import pack, unpack, unpack_answer
from adaptive_batching.workers.process.shared_memory import End, SharedMemory, created
from adaptive_batching.workers.process.worker_loop import WorkerLoop

SIZE = 2**21


class Subclass(np.ndarray):
    """Has a type to be kept."""


class Pair:
    """A parent and a servant of this handler."""

    def __init__(self, handler, most=2**30):
        with created(SIZE) as fd:
            self.parent, self.child = SharedMemory(fd, End.PARENT), SharedMemory(fd, End.CHILD)
        with asyncio.Runner() as runner:
            self.servant = WorkerLoop(runner, self.child)
            self.servant.prepare(lambda: (handler, None))
        self.most = most

    def answer(self, items):
        """The frame that comes for a batch."""
        frame = b"".join(returning(pack(items, self.parent), self.parent.end_message()))
        pieces = _framed(self.servant.answer(bytearray(frame)), self.most, self.child)
        return bytearray(b"".join(pieces[1:]))

    def run(self, items):
        """The results of a batch."""
        return unpack_answer(self.answer(items), self.parent)


def identity(items):
    return items


def large(number):
    return np.full(100_000, number, np.uint8)


READ_ONLY = np.ones(10_000)
READ_ONLY.flags.writeable = False
TWICE = np.ones(10_000)

BATCHES = [
    *([np.arange(5_000).astype(letter) for _ in range(4)] for letter in "hHiIlLqQfd"),
    [np.ones((100, 30, 5), np.float16), np.zeros((70_000, 1), bool), np.ones(70_000, np.int8)],
    [np.ones(10_000, np.complex128)],
    [np.ones(10_000, ">f8")],
    [np.ones(10_000, "M8[s]")],
    [np.ones(10_000, [("a", "f8"), ("b", "i4")])],
    [np.ones(10_000, np.dtype("f8", metadata={"unit": "s"}))],
    [np.full(10_000, "text")],
    [np.full(10_000, None)],
    [np.ones((100, 200)).T],
    [np.ones(20_000)[::2]],
    [np.ones(10_000).view(Subclass)],
    [READ_ONLY],
    [TWICE, TWICE],
    [np.ones(70_000), np.ones(1)],
    [np.ones(70_000), "text", None],
    [np.ones((0, 100_000)), np.ones(70_000)],
    [np.float64(1.0), np.ones(70_000)],
]


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_arrays_arrive_as_if_pickled(batch):
    """Whatever they are, and whichever way they take: as items, and as results that are copied."""
    expected = pickle.loads(pickle.dumps(batch, protocol=5))
    arrived = []
    pair = Pair(lambda items: arrived.extend(items) or items)
    for received in (pair.run(batch), arrived):
        for one, other in zip(received, expected, strict=True):
            assert type(one) is type(other)
            if isinstance(other, np.ndarray):
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                assert one.dtype.metadata == other.dtype.metadata
                assert one.flags.f_contiguous == other.flags.f_contiguous
                assert one.flags.writeable == other.flags.writeable
                assert one.flags.aligned
            assert np.array_equal(one, other)
        assert (received[0] is received[-1]) == (expected[0] is expected[-1])


def test_what_the_handler_returns_stays_where_it_is():
    """Items that it wrote to in place come back uncopied, batch after batch in the same memory."""

    def double(items):
        for item in items:
            np.multiply(item, 2, out=item)
        return items

    pair = Pair(double)
    for number in range(50):
        results = pair.run([large(number), large(number + 1)])
        assert [array.max() for array in results] == [2 * number, 2 * number + 2]
        assert [pair.parent.start_of(array.base) for array in results] == [0, 100_032]
        assert pair.child.lend(memoryview(bytes(SIZE // 2))) == SIZE // 2  # has copied nothing
        pair.child.end_message()
        pair.child.forget_message()
        del results


@pytest.mark.parametrize("see", [lambda item: item, lambda item: item[7:9], memoryview, np.ravel])
def test_what_the_handler_still_sees_is_copied(see):
    """It may write to what it keeps; the caller's results are his own."""
    kept = []

    def keep(items):
        kept.extend(map(see, items))
        return items

    pair = Pair(keep)
    results = [array for number in range(4) for array in pair.run([large(number)])]
    for view in kept:
        view[:] = type(view[:1])(b"\xff" * len(view)) if isinstance(view, memoryview) else 255
    assert [array.max() for array in results] == [0, 1, 2, 3]


def test_a_result_for_two_is_no_block_of_both():
    """Two arrays over one item, or one that is only a part of it, are copied."""
    pair = Pair(lambda items: [items[0], items[0].view(), items[0][:50_000].copy()])
    one, other, part = pair.run([large(1), large(2), large(3)])
    one[:] = 9
    assert other.max() == part.max() == 1
    pair = Pair(lambda items: [item[:70_000] for item in items])
    assert pair.run([large(1)])[0].shape == (70_000,)


def test_what_is_handed_back_counts_as_results():
    """Above the cap it is refused, and the memory is free again."""
    pair = Pair(identity, most=50_000)
    for _ in range(30):  # more than fit
        with pytest.raises(Exception, match="at most 50,000 bytes together, got 100,"):
            pair.run([large(1)])
    pair.run(["nothing"])
    assert pair.parent.lend(memoryview(large(1))) == 0


@settings(max_examples=40)
@given(st.data())
def test_nothing_that_is_seen_is_written_over(data):
    """The handler and its callers keep and drop what they like; what they keep never changes."""
    kept, held = [], []
    holds = copies = False

    def handler(items):
        held.extend((int(item[0]), item) for item in items if holds)
        return [item.copy() for item in items] if copies else items

    pair = Pair(handler)
    for number in range(data.draw(st.integers(1, 15))):
        sizes = data.draw(st.lists(st.integers(5_000, 300_000), min_size=1, max_size=4))
        holds, copies = data.draw(st.booleans()), data.draw(st.booleans())
        results = pair.run([np.full(size, number, np.uint8) for size in sizes])
        kept += [(number, array) for array in results]
        kept = [each for each in kept if data.draw(st.booleans())]
        held[:] = [each for each in held if data.draw(st.booleans())]
        del results
        assert all(np.all(array == when) for when, array in kept + held)
    kept.clear()
    held.clear()
    for _ in range(2):
        pair.run([])
    for memory in (pair.parent, pair.child):
        assert memory.lend(memoryview(bytes(SIZE // 2))) is not None


def lie(*places):
    return bytearray(
        ONLY_ARRAYS + bytes(4) + marshal.dumps([(*place, "B", place[1:]) for place in places])
    )


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([(64, 100_000)], "between 1048576 and 2097152, got 100000 bytes at 64"),  # no block
        ([(0, 200_000)], "got 200000 bytes at 0"),  # longer than the block
        ([(0, 100_000), (0, 100_000)], "not in use, got 100000 bytes at 0"),
        ([(100_032, 1)], "got 1 bytes at 100032"),  # not lent any more
    ],
)
def test_an_answer_that_hands_back_what_it_does_not_hold(places, message):
    """Nothing is read or seen that is not the answer's."""
    parent = Pair(identity).parent
    pack([large(1), large(2)], parent)
    parent.take_back([100_032])
    with pytest.raises(MalformedFrame, match=message):
        unpack(lie(*places), parent)


def test_what_came_home_is_nobody_elses():
    """A child that returns or hands back a block for the second time is broken."""
    pair = Pair(identity)
    results = pair.run([large(1)])
    for again in (lie((0, 100_000)), b"".join(returning(pack("x"), [0]))):
        with pytest.raises(MalformedFrame, match=r"in use|was lent, got 0 back"):
            unpack(bytearray(again), pair.parent)
    del results
    for again in (lie((0, 100_000)), b"".join(returning(pack("x"), [0]))):
        with pytest.raises(MalformedFrame, match=r"got 100000 bytes at 0|was lent, got 0 back"):
            unpack(bytearray(again), pair.parent)


def test_no_memory_no_arrays_in_it():
    """Who has none can't be told of it."""
    with pytest.raises(MalformedFrame, match="expected no shared memory"):
        unpack(lie((0, 1)))
