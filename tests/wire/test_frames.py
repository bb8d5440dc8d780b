"""Frames on a byte stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire.frames import FrameDecoder, FrameTooLong, encode


@given(st.lists(st.binary(max_size=40)), st.data())
def test_any_chunking_gives_the_same_payloads(payloads, data):
    """However the stream is cut, the decoder returns what was encoded, in order."""
    stream = b"".join(piece for payload in payloads for piece in encode([payload]))
    cuts = data.draw(st.lists(st.integers(0, len(stream))).map(sorted))
    decoder = FrameDecoder()
    decoded = [
        payload
        for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for payload in decoder.feed(stream[start:stop])
    ]
    assert decoded == payloads


def test_parts_make_one_payload():
    """The parts of a payload follow one header, uncopied."""
    large = bytearray(b"large")
    pieces = encode([b"small ", large])
    assert pieces[2] is large
    assert FrameDecoder().feed(b"".join(pieces)) == [b"small large"]


def test_a_frame_without_payload():
    """An empty frame is an empty payload."""
    assert FrameDecoder().feed(b"\0\0\0\0") == [b""]


def test_payloads_can_be_written_to():
    """Each payload is memory of its own."""
    first, second = FrameDecoder().feed(b"".join(encode([b"ab"]) * 2))
    first[0] = 0
    assert second == b"ab"


@pytest.mark.parametrize("cut", [0, 2])
def test_too_long_a_frame_is_refused_at_its_header(cut):
    """The decoder does not wait for, or make room for, what it will not accept."""
    header = b"\0\0\0\x06"
    decoder = FrameDecoder(max_length=5)
    decoder.feed(header[:cut])
    with pytest.raises(FrameTooLong, match="at most 5 bytes, got 6"):
        decoder.feed(header[cut:])


def test_the_longest_frame_is_accepted():
    """The limit itself is allowed, for both ends."""
    assert FrameDecoder(max_length=3).feed(b"".join(encode([b"abc"], 3))) == [b"abc"]


def test_too_long_a_payload_is_not_encoded():
    """The sender finds out before the receiver has to."""
    with pytest.raises(FrameTooLong, match="at most 3 bytes, got 4"):
        encode([b"ab", b"cd"], max_length=3)
