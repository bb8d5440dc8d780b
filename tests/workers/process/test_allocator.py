"""Which bytes are taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.workers.process.allocator import ALIGNMENT, Allocator

START, STOP = ALIGNMENT, 20 * ALIGNMENT


@given(st.data())
def test_blocks_never_overlap(data):
    """However they come and go; what finds no room would not fit anywhere."""
    allocator = Allocator(START, STOP)
    taken = {}
    for _ in range(data.draw(st.integers(0, 20))):
        if taken and data.draw(st.booleans()):
            start = data.draw(st.sampled_from(sorted(taken)))
            allocator.free(start)
            del taken[start]
            continue
        size = data.draw(st.integers(1, 10)) * ALIGNMENT
        start = allocator.allocate(size - data.draw(st.integers(0, ALIGNMENT - 1)))
        if start is not None:
            taken[start] = start + size
        edges = [START, *(edge for block in sorted(taken.items()) for edge in block), STOP]
        assert edges == sorted(edges)
        assert all(start % ALIGNMENT == 0 for start in taken)
        if start is None:
            assert (
                max(end - start for start, end in zip(edges[::2], edges[1::2], strict=True)) < size
            )
    for start in taken:
        allocator.free(start)
    assert allocator.allocate(STOP - START) == START


def test_what_was_not_allocated_can_not_be_freed():
    """Not even the middle of a block."""
    allocator = Allocator(START, STOP)
    start = allocator.allocate(2 * ALIGNMENT)
    for wrong in (start + ALIGNMENT, STOP):
        with pytest.raises(KeyError):
            allocator.free(wrong)
    allocator.free(start)
    with pytest.raises(KeyError):
        allocator.free(start)
