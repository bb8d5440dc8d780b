"""MessagePack in rows: what is merged and split again is what came, byte for byte."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire.exchange import Message, Request, Unsplittable
from adaptive_batching.wire.msgpack import GenericMsgpack

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
    | st.binary() | st.just(msgspec.msgpack.Ext(5, b"own")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
    max_leaves=5,
)  # fmt: skip
items = st.one_of(
    values.map(msgspec.msgpack.encode),
    st.sampled_from([b"\xcd\x00\x01", b"\xd9\x01a"]),  # longer than it had to be
)


def pack(value):
    return msgspec.msgpack.encode(value)


def request(body, **headers):
    return Request("POST", "/inference", Message(body, headers))


def array(parts):
    return pack([msgspec.Raw(part) for part in parts])


@given(
    st.lists(st.lists(items, min_size=1, max_size=9), min_size=2, max_size=4),
    st.dictionaries(st.text(max_size=3), values, max_size=2),
)
def test_merge_and_split_are_inverse(clients, beside):
    """Each client gets, from a server that echoes, exactly the bytes of its own items."""
    beside.pop("in", None)
    form = GenericMsgpack(("in",), ("out",))
    shares = [
        form.take(request(pack({"in": msgspec.Raw(array(own)), **beside}))) for own in clients
    ]
    assert len({share.key for share in shares}) == 1
    merged = msgspec.msgpack.decode(form.merge(shares).body, type=dict[str, msgspec.Raw])
    everything = array([item for own in clients for item in own])
    assert bytes(merged["in"]) == everything
    parts = form.split(shares, Message(pack({"out": msgspec.Raw(everything)})))
    assert [part.body for part in parts] == [
        pack({"out": msgspec.Raw(array(own))}) for own in clients
    ]


@given(st.lists(items, min_size=1), st.integers(1, 5))
def test_cut_and_join_are_inverse(own, limit):
    """A request over the limit goes in pieces, and its answer comes back whole."""
    form = GenericMsgpack()
    share = form.take(request(array(own)))
    pieces = form.cut(share, limit)
    assert all(piece.size <= limit and piece.key == share.key for piece in pieces)
    assert form.join(share, [form.merge([piece]) for piece in pieces]).body == array(own)


@pytest.mark.parametrize("count", [15, 16, 2**16 - 1, 2**16])
def test_lists_of_any_length(count):
    """Their beginning takes one, three or five bytes."""
    form = GenericMsgpack()
    shares = [form.take(request(pack([1] * size))) for size in (1, count - 1)]
    merged = form.merge(shares)
    assert merged.body == pack([1] * count)
    assert [part.body for part in form.split(shares, merged)] == [
        pack([1]),
        pack([1] * (count - 1)),
    ]


def test_what_keeps_requests_apart():
    """What is beside the items, and what the type is called, which is sent on."""
    form = GenericMsgpack(("in",))
    first = request(pack({"in": [1], "k": 1}), **{"content-type": "application/x-msgpack"})
    share = form.take(first)
    assert share.key != form.take(request(pack({"in": [1], "k": 1}))).key
    assert share.key != form.take(request(pack({"in": [1], "k": 2}), **first.message.headers)).key
    assert form.merge([share, share]).headers == first.message.headers


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        pack(1),
        pack([]),
        pack({"in": 1}),
        b"\x91\x01\x02",
        b"\xdd\xff\xff\xff\xff",
        b"\x81\xa1\xff\x91\x01",
    ],
)
def test_what_is_passed_on(body):
    """No list, an empty one, no MessagePack, or a name in it that is no text."""
    assert GenericMsgpack().take(request(body)) is None
    assert GenericMsgpack(("in",)).take(request(body)) is None


def test_answers_that_can_not_be_split():
    """Nobody is given what may be another's."""
    form = GenericMsgpack(results=("out",))
    shares = [form.take(request(pack([1]))) for _ in range(2)]
    for said, message in (
        (pack({"out": [1]}), "expected 2 results, got 1"),
        (pack({}), "is not cut"),
        (b"\x81\xa1\xff\x91\x01", "is not cut"),
    ):
        with pytest.raises(Unsplittable, match=message):
            form.split(shares, Message(said))
