"""Protocols by the names that users write."""

import pytest

from adaptive_batching.wire.exchange import Message, Request
from adaptive_batching.wire.formats import PROTOCOLS, make_format

OPEN_INFERENCE = b'{"inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":[1]}]}'


@pytest.mark.parametrize("name", PROTOCOLS)
def test_each_can_be_made(name):
    """Without anything else said, each wants what is posted somewhere, and nothing else."""
    items = "/texts" if name == "bentoml" else ""
    assert not make_format(name, items).wants("GET", "/v2/health/live")


def test_a_name_that_nobody_knows():
    """The names are listed."""
    with pytest.raises(ValueError, match=r"json, kserve-v1, .*open-inference.*, got 'grpc'"):
        make_format("grpc")


def test_pointers_without_a_use():
    """They are told, not ignored."""
    with pytest.raises(
        ValueError, match=r"items: expected it with bentoml or json .*got it with tensorflow"
    ):
        make_format("tensorflow", "/inputs")


def test_a_packed_path_without_a_use():
    """Likewise; where there is one, all that has a body is packed."""
    with pytest.raises(
        ValueError, match="packed_path: expected it with packed only, got it with tei"
    ):
        make_format("tei", packed_path="/batch")
    form = make_format("packed", packed_path="/batch")
    assert [form.wants(method, "/a") for method in ("PUT", "PATCH", "POST", "GET")] == [
        True, True, True, False
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pointers", "told"),
    [
        (("", ""), "items: expected the parameter of bentoml's endpoint"),
        (("/texts", "/results"), "results: expected it with json or msgpack only"),
    ],
)
def test_bentoml_has_to_be_told_its_parameter(pointers, told):
    """A list anywhere else may be something that is no batch; results are the whole answer."""
    with pytest.raises(ValueError, match=told):
        make_format("bentoml", *pointers)


def test_bentoml_endpoints():
    """A parameter that takes a list, and a bare list for an answer."""
    form = make_format("bentoml", "/texts")
    shares = [
        form.take(Request("POST", "/summarize", Message(body)))
        for body in (b'{"texts":["a","b"]}', b'{"texts": ["c"]}')
    ]
    assert form.merge(shares).body == b'{"texts":["a","b","c"]}'
    parts = form.split(shares, Message(b'["A", "B", "C"]'))
    assert [part.body for part in parts] == [b'["A","B"]', b'["C"]']


@pytest.mark.parametrize(
    ("name", "path", "body"),
    [
        ("json", "/any", b"[1]"),
        ("msgpack", "/any", b"\x91\x01"),
        ("openai-embeddings", "/v1/embeddings", b'{"input":"a"}'),
        ("open-inference", "/v2/models/m/infer", OPEN_INFERENCE),
        ("tei", "/embed", b'{"inputs":"a"}'),
        ("tei", "/predict", b'{"inputs":"a"}'),
        ("tensorflow", "/v1/models/m:predict", b'{"instances":[1]}'),
        ("tensorflow-columns", "/v1/models/m:predict", b'{"inputs":[1]}'),
        ("torchserve", "/predictions/m", b'{"instances":[1]}'),
    ],
)
def test_content_types_are_not_mixed(name, path, body):
    """Servers refuse some, so each keeps to its own, which is sent on with the batch."""
    form = make_format(name)
    keys = set()
    for said in ({"content-type": "application/json"}, {"content-type": "text/plain"}, {}):
        share = form.take(Request("POST", path, Message(body, said)))
        keys.add(share.key)
        assert form.merge([share, share]).headers == said
        assert form.merge(form.cut(share, 1)).headers == said
    assert len(keys) == 3


def test_torchserve():
    """Its JSON envelope, whatever the content type; other bodies are one item each."""
    form = make_format("torchserve")
    path = "/predictions/digits/1.0"
    share = form.take(Request("POST", path, Message(b'{"instances":[1]}', {})))
    parts = form.split([share, share], Message(b'{"predictions":[1,2]}'))
    assert [part.body for part in parts] == [b'{"predictions":[1]}', b'{"predictions":[2]}']
    assert form.take(Request("POST", path, Message(b"\x89PNG"))) is None
    assert form.take(Request("POST", "/models/digits", Message(b'{"instances":[1]}'))) is None
