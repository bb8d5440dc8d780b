"""Bytes in pieces."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire.pieces import cut, size_of, whole


@given(st.lists(st.binary(max_size=5)), st.data())
def test_parts_hold_the_bytes_in_their_order(pieces, data):
    """However they came, and wherever they are cut; without a copy."""
    text = b"".join(pieces)
    ends = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    spans = [*pairwise([0, *ends])]
    parts = cut(tuple(map(memoryview, pieces)), [end - begin for begin, end in spans])
    assert [bytes(whole(part)) for part in parts] == [text[begin:end] for begin, end in spans]
    assert [size_of(part) for part in parts] == [end - begin for begin, end in spans]
    assert all(piece.obj in pieces for part in parts for piece in part)
