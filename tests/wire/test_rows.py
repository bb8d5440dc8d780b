"""Formats in rows: what is merged and split again is what came, byte for byte."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire.exchange import Message, Request, Unsplittable
from adaptive_batching.wire.generic import GenericJSON
from adaptive_batching.wire.pointer import parse_pointer
from adaptive_batching.wire.tensorflow import TensorFlowServing
from tests.wire.texts import names, values

PREDICT = "/v1/models/digits:predict"
rows = st.lists(values(), min_size=1, max_size=4)


def request(body, path=PREDICT, method="POST", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, path, Message(body if isinstance(body, bytes) else body.encode(), named))


def text(parts):
    return "[" + " , ".join(parts) + "]"


@given(st.lists(rows, min_size=2, max_size=5), st.dictionaries(names, values(), max_size=2))
def test_merge_and_split_are_inverse(clients, beside):
    """Each client gets, from a server that echoes, exactly the texts of its own items."""
    beside = {name: value for name, value in beside.items() if name not in ("in", "out")}
    others = "".join(f"{json.dumps(name)}:{value}," for name, value in beside.items())
    form = GenericJSON(("in",), ("out",))
    shares = [form.take(request("{" + others + '"in":' + text(items) + "}")) for items in clients]
    assert len({share.key for share in shares}) == 1
    merged = form.merge(shares).body.decode()
    answer = Message(merged.replace('"in":[', '"out":[', 1).encode())
    for items, part in zip(clients, form.split(shares, answer), strict=True):
        assert part.body.decode().endswith('"out":[' + ",".join(items) + "]}")


@given(st.data(), rows, st.integers(1, 5))
def test_a_batch_is_filled_up_with_one_of_its_items(data, items, times):
    """From a server that echoes the request gets its own items, and that one as often."""
    form = GenericJSON()
    share = form.take(request(text(items)))
    place = data.draw(st.integers(-1, share.size - 1))
    shares = [share, form.repeated(share, place, times)]
    assert (shares[1].key, shares[1].size) == (share.key, times)
    own, more = (part.body.decode() for part in form.split(shares, form.merge(shares)))
    assert own == "[" + ",".join(items) + "]"
    assert more == "[" + ",".join([items[place]] * times) + "]"


@given(rows, st.integers(1, 5))
def test_cut_and_join_are_inverse(items, limit):
    """A request over the limit goes in pieces, and its answer comes back whole."""
    form = GenericJSON()
    share = form.take(request(text(items)))
    pieces = form.cut(share, limit)
    assert all(piece.size <= limit and piece.key == share.key for piece in pieces)
    answers = [form.merge([piece]) for piece in pieces]
    assert form.join(share, answers).body.decode() == "[" + ",".join(items) + "]"


def test_what_is_beside_the_items_keeps_requests_apart():
    """Another signature, verb or model is another batch; another order of names is not."""
    form = TensorFlowServing()
    same = [
        form.take(request('{"instances": [1], "signature_name": "a"}')),
        form.take(request('{"signature_name":"a","instances":[2,3]}')),
    ]
    other = [
        form.take(request('{"signature_name":"b","instances":[2]}')),
        form.take(request('{"signature_name":"a","instances":[2]}', "/v1/models/other:predict")),
        form.take(request('{"signature_name":"a","instances":[2]}', PREDICT[:-7] + "explain")),
    ]
    assert same[0].key == same[1].key
    assert len({share.key for share in (same[0], *other)}) == 4
    assert form.merge(same).body == b'{"signature_name":"a","instances":[1,2,3]}'


@pytest.mark.parametrize(
    ("verb", "items", "results"),
    [
        ("predict", "instances", "predictions"),
        ("explain", "instances", "explanations"),
        ("classify", "examples", "results"),
        ("regress", "examples", "results"),
    ],
)
def test_the_verbs_of_tensorflow_serving(verb, items, results):
    """Each has its names; versions and labels may stand before it."""
    form = TensorFlowServing()
    for where in ("m", "m/versions/3", "m/labels/stable"):
        share = form.take(request(f'{{"{items}":[1,2]}}', f"/v1/models/{where}:{verb}"))
        parts = form.split([share, share], Message(f'{{"{results}":[7,8,9,0]}}'.encode()))
        assert [part.body for part in parts] == [
            f'{{"{results}":[{own}]}}'.encode() for own in ("7,8", "9,0")
        ]


def test_one_alone():
    """It is sent as it came, and whatever is answered is for it."""
    form = TensorFlowServing()
    alone = request('{ "instances": [ 1 ] }', content_type="application/x-other")
    share = form.take(alone)
    assert form.merge([share]) == alone.message
    answer = Message(b"anything")
    assert form.split([share], answer) == [answer]


@pytest.mark.parametrize(
    "passed",
    [
        request('{"instances":[1]}', method="PUT"),
        request('{"instances":[1]}', "/v1/models/m"),
        request('{"instances":[1]}', "/v1/models/m:generate"),
        request('{"instances":[1],"inputs":[1]}'),
        request('{"inputs":{"x":[1]}}'),
        request('{"instances":[]}'),
        request('{"instances":1}'),
        request("[1]"),
        request("not json"),
        request(b'{"instances":["\xff"]}'),
        request('{"instances":[1]}', content_type="application/cloudevents+json"),
        request('{"instances":[1]}', ce_id="1"),
    ],
)
def test_what_is_passed_on(passed):
    """Whatever is not understood is for the server to judge."""
    assert TensorFlowServing().take(passed) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"predictions":[1]}', "expected 2 results, got 1"),
        (b'{"predictions":[1,2,3]}', "expected 2 results, got 3"),
        (b'{"outputs":[1,2]}', "expected 'predictions' in the object, got outputs"),
        (b"oops", "the answer is not cut"),
    ],
)
def test_answers_that_can_not_be_split(body, message):
    """Nobody is given what may be another's."""
    form = TensorFlowServing()
    shares = [form.take(request('{"instances":[1]}')) for _ in range(2)]
    with pytest.raises(Unsplittable, match=message):
        form.split(shares, Message(body))


def test_pointers():
    """As RFC 6901 writes them."""
    assert parse_pointer("items", "") == ()
    assert parse_pointer("items", "/data/rows") == ("data", "rows")
    assert parse_pointer("items", "/a~1b/m~0n") == ("a/b", "m~n")
    with pytest.raises(ValueError, match="items: expected a JSON pointer such as /inputs"):
        parse_pointer("items", "inputs")
    with pytest.raises(ValueError, match=r"expected a JSON pointer .* got '/a~'"):
        parse_pointer("items", "/a~")


def test_a_piece_without_a_list():
    """What can't be joined is told as what can't be split."""
    form = GenericJSON()
    share = form.take(request("[1,2]"))
    with pytest.raises(Unsplittable, match="the answer is not cut"):
        form.join(share, [Message(b"[7]"), Message(b"{}")])
