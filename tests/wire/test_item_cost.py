"""What items cost: read off their bytes, without reading more of them than that takes."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire import msgpack
from adaptive_batching.wire.exchange import Message, Request
from adaptive_batching.wire.formats import make_format
from adaptive_batching.wire.item_cost import parse_item_cost
from adaptive_batching.wire.splice import NotCuttable, elements, length
from tests.wire.texts import values

TENSORS = """{"inputs":[
    {"name":"x","shape":[2,2],"datatype":"INT32","data":[1,2,3,4]},
    {"name":"t","shape":[2],"datatype":"BYTES","data":["a","longer"]}]}"""


def costs(cost: str, body: str | bytes, protocol: str = "json", path: str = "/any") -> list[float]:
    """What the items of a request cost."""
    form = make_format(protocol)
    text = body.encode() if isinstance(body, str) else body
    share = form.take(Request("POST", path, Message(text)))
    assert share is not None
    return list(form.costs(share, parse_item_cost(cost)))


@pytest.mark.parametrize(
    ("cost", "body", "expected"),
    [
        ("bytes", '["ä", 1, [2, 3]]', [4, 1, 6]),
        ("chars", '["ä", "\\u00e4\\n", "", {"t": "ä"}]', [1, 2, 0, 11]),
        ("/n", '[{"n": 3}, {"n": 0.5, "m": 1}]', [3, 0.5]),
        ("/tokens:length", '[{"tokens": [1, 2]}, {"tokens": []}]', [2, 0]),
        ("/in/text:length", '[{"in": {"text": "ä\\n"}}]', [2]),
        ("/a~1b:length", '[{"a/b": [[1], [2, 3]]}]', [2]),
        (":length", '[[1, 2, 3], ["a,b"], [ ]]', [3, 1, 0]),
    ],
)
def test_the_cost_of_each_item(cost: str, body: str, expected: list[float]) -> None:
    """Bytes as they came; characters of strings; numbers and lengths where a pointer says."""
    assert costs(cost, body) == expected


@pytest.mark.parametrize(
    ("protocol", "path", "body", "cost", "expected"),
    [
        ("tensorflow", "/v1/models/m:predict", '{"instances":["ab",[1]]}', "bytes", [4, 3]),
        ("tensorflow-columns", "/v1/models/m:predict", '{"inputs":{"a":[1,22],"b":["x","yy"]}}',
         "bytes", [4, 6]),
        ("tei", "/embed", '{"inputs":["ab","cde"]}', "chars", [2, 3]),
        ("openai-embeddings", "/v1/embeddings", '{"input":[[1,2],[3]]}', ":length", [2, 1]),
        ("open-inference", "/v2/models/m/infer", TENSORS, "bytes", [4.5 + 5, 4.5 + 10]),
        ("packed", "/any", '{"text":"abc"}', "/text:length", [3]),
        ("packed", "/any", b"\xff\xfe", "chars", [2]),
    ],
)  # fmt: skip
def test_items_of_each_protocol(
    protocol: str, path: str, body: str | bytes, cost: str, expected: list[float]
) -> None:
    """Rows of columns cost what their parts cost together; rows of tensors, their bytes."""
    assert costs(cost, body, protocol, path) == expected


@given(st.lists(values(), max_size=6))
def test_json_arrays_are_as_long_as_they_are(items: list[object]) -> None:
    """Whatever stands in them, and however it is spaced."""
    for text in (json.dumps([items]), json.dumps([items], indent=1)):
        assert length(elements(text.encode())[0]) == len(items)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 70_000])
def test_messagepack_arrays_say_how_long_they_are(size: int) -> None:
    """In one byte, in two, or in four; strings in theirs are decoded."""
    body = msgspec.msgpack.encode([{"tokens": [7] * size, "text": "ä", "n": 2.5}])
    assert costs("/tokens:length", body, "msgpack") == [size]
    assert costs("/text:length", body, "msgpack") == [1]
    assert costs("/n", body, "msgpack") == [2.5]
    assert costs("chars", body, "msgpack") == [len(body) - 1]
    with pytest.raises(NotCuttable):
        msgpack.length(msgspec.Raw(b"\x01"))


@pytest.mark.parametrize(
    ("cost", "item"),
    [
        ("/n", "{}"),
        ("/n", "3"),
        ("/n", '{"n": "3"}'),
        ("/n", '{"n": true}'),
        ("/n", '{"n": -1}'),
        ("/n", '{"n": 1e300}'),
        ("/n:length", '{"n": 3}'),
        ("/n:length", '{"n": {"a": 1}}'),
    ],
)
def test_an_item_without_its_cost_shares_no_batch(cost: str, item: str) -> None:
    """Nor does one whose number is below 0, or beyond what any item costs."""
    with pytest.raises(NotCuttable):
        costs(cost, f"[{item}]")


@pytest.mark.parametrize(
    ("cost", "item", "told"),
    [
        ("/tokens:length", {"tokens": None}, "expected a list or a string at /tokens, got null"),
        ("/a~1b/c:length", {"a/b": {"c": 3}}, "expected a list or a string at /a~1b/c, got int"),
        (":length", {"tokens": [1]}, "expected a list or a string, got object"),
        ("/n", {"n": "3"}, "expected a number at /n, got str"),
        ("/n", {"n": [3]}, "expected a number at /n, got array"),
        ("/n", {"m": 3}, "expected 'n' in an item, to read its cost"),
    ],
)
def test_what_stands_where_a_cost_should(cost: str, item: object, told: str) -> None:
    """The error says where it was looked for, what was expected there, and what was found."""
    with pytest.raises(NotCuttable) as raised:
        costs(cost, json.dumps([item]))
    assert str(raised.value) == told


@pytest.mark.parametrize(
    "text", ["", "tokens", "/a~", "a:length", "bytes:length", "/tokens:len", "/a/b:"]
)
def test_what_is_no_cost_is_refused(text: str) -> None:
    """With what is one, or what a pointer is."""
    with pytest.raises(ValueError, match=r"cost: expected .* got "):
        parse_item_cost(text)
