"""TensorFlow Serving's columns: merged only if that was asked for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire.exchange import Message, Request, Unsplittable
from adaptive_batching.wire.splice import text_of
from adaptive_batching.wire.tensorflow import TensorFlowServing
from tests.wire.texts import names, values

FORM = TensorFlowServing(columns=True)


def request(inputs, more=""):
    body = f'{{"inputs":{inputs}{more}}}'.encode()
    return Request("POST", "/v1/models/m:predict", Message(body))


def text(rows):
    return "[" + ",".join(rows) + "]"


@st.composite
def clients(draw):
    """Requests with the same columns, or with a single one that has no name."""
    called = draw(st.none() | st.sets(names, min_size=1, max_size=3).map(sorted))

    def rows(size):
        return draw(st.lists(values(), min_size=size, max_size=size))

    sizes = draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    if called is None:
        return [(size, text(rows(size))) for size in sizes]
    return [
        (size, "{" + ",".join(f"{text_of(n).decode()}:{text(rows(size))}" for n in called) + "}")
        for size in sizes
    ]


def echo(merged):
    return Message(merged.body.replace(b'"inputs":', b'"outputs":', 1))


@given(clients())
def test_merge_and_split_are_inverse(asked):
    """From a server that echoes, each client gets his own rows of all columns."""
    shares = [FORM.take(request(inputs)) for _, inputs in asked]
    assert len({share.key for share in shares}) == 1
    assert [share.size for share in shares] == [size for size, _ in asked]
    parts = FORM.split(shares, echo(FORM.merge(shares)))
    assert [part.body.decode() for part in parts] == [f'{{"outputs":{own}}}' for _, own in asked]


@given(clients(), st.integers(1, 2))
def test_cut_and_join_are_inverse(asked, limit):
    """A request over the limit goes in pieces, and its answer comes back whole."""
    inputs = asked[0][1]
    share = FORM.take(request(inputs))
    pieces = FORM.cut(share, limit)
    assert all(piece.size <= limit and piece.key == share.key for piece in pieces)
    joined = FORM.join(share, [echo(FORM.merge([piece])) for piece in pieces])
    assert joined.body.decode() == f'{{"outputs":{inputs}}}'


@given(st.data(), clients(), st.integers(1, 3))
def test_a_batch_is_filled_up_with_one_of_its_rows(data, asked, times):
    """The request gets its own rows of all columns."""
    size, inputs = asked[0]
    share = FORM.take(request(inputs))
    place = data.draw(st.integers(-1, size - 1))
    shares = [share, FORM.repeated(share, place, times)]
    own, more = FORM.split(shares, echo(FORM.merge(shares)))
    assert own.body.decode() == f'{{"outputs":{inputs}}}'
    row = FORM.cut(share, 1)[place]
    assert more.body == echo(FORM.merge([row] * times)).body


def test_only_if_asked_for():
    """Columns need not be rows of anything."""
    assert TensorFlowServing().take(request("[1,2]")) is None


def test_rows_and_columns_stay_apart():
    """Rows are merged as ever; other signatures and other columns are other batches."""
    rows = FORM.take(
        Request("POST", "/v1/models/m:predict", Message(b'{"instances":[{"a":1},{"a":2}]}'))
    )
    answers = FORM.split([rows, rows], Message(b'{"predictions":[1,2,3,4]}'))
    assert answers[1].body == b'{"predictions":[3,4]}'
    assert [piece.size for piece in FORM.cut(rows, 1)] == [1, 1]
    others = [
        request("[1]"), request('{"a":[1]}'), request('{"b":[1]}'), request('{"":[1]}'),
        request("[1]", ',"signature_name":"s"'),
    ]  # fmt: skip
    assert len({rows.key, *(FORM.take(other).key for other in others)}) == 6


@pytest.mark.parametrize(
    "inputs", ["[]", "1", "{}", '{"b64":"YQ=="}', '{"a":[1],"b":[1,2]}', '{"a":[]}', '{"a":1}']
)
def test_what_is_passed_on(inputs):
    """Tensors without a common first dimension."""
    assert FORM.take(request(inputs)) is None


def test_more_columns_than_any_model_has():
    """They would take twenty times the memory that their bytes are counted for."""
    few, many = (json.dumps({str(n): [1] for n in range(count)}) for count in (1024, 1025))
    assert FORM.take(request(few)) is not None
    assert FORM.take(request(many)) is None


def test_both_notations_at_once():
    """It is for the server to refuse that."""
    assert FORM.take(request("[1]", ',"instances":[1]')) is None


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"outputs": [1]}, "expected 2 results, got 1"),
        ({"outputs": {"a": [1, 2], "mean": [1]}}, "expected tensors of as many rows, got 2, 1"),
        ({"outputs": 1}, "the answer is not cut"),
        ({"error": "no"}, "the answer is not cut"),
    ],
)
def test_answers_that_can_not_be_split(said, message):
    """Nobody is given what may be another's."""
    shares = [FORM.take(request("[1]")) for _ in range(2)]
    with pytest.raises(Unsplittable, match=message):
        FORM.split(shares, Message(json.dumps(said).encode()))


def test_pieces_that_do_not_make_a_whole():
    """Other outputs, or too few rows, are an error and no short answer."""
    share = FORM.take(request("[1,2]"))
    with pytest.raises(Unsplittable, match="the same outputs"):
        FORM.join(share, [Message(b'{"outputs":[1]}'), Message(b'{"outputs":{"a":[1]}}')])
    with pytest.raises(Unsplittable, match="expected 2 results, got 1"):
        FORM.join(share, [Message(b'{"outputs":[1]}')])
