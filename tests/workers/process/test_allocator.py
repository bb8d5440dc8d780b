"""Which bytes are taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.workers.process.allocator import ALIGNMENT, Arena

START, STOP = ALIGNMENT, 20 * ALIGNMENT


@given(st.data())
def test_blocks_never_overlap(data):
    """However they come and go; what finds no room would not fit anywhere."""
    arena = Arena(START, STOP)
    taken = {}
    for _ in range(data.draw(st.integers(0, 20))):
        if taken and data.draw(st.booleans()):
            start = data.draw(st.sampled_from(sorted(taken)))
            arena.free(start)
            del taken[start]
            continue
        size = data.draw(st.integers(1, 10)) * ALIGNMENT
        start = arena.allocate(size - data.draw(st.integers(0, ALIGNMENT - 1)))
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
        arena.free(start)
    assert arena.allocate(STOP - START) == START


def test_what_was_not_allocated_can_not_be_freed():
    """Not even the middle of a block."""
    arena = Arena(START, STOP)
    start = arena.allocate(2 * ALIGNMENT)
    for wrong in (start + ALIGNMENT, STOP):
        with pytest.raises(KeyError):
            arena.free(wrong)
    arena.free(start)
    with pytest.raises(KeyError):
        arena.free(start)
