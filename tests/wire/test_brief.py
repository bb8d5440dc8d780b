"""Batch keys stay small, whatever clients make up."""

import pickle

import pytest

from adaptive_batching.wire.exchange import Message, Request
from adaptive_batching.wire.formats import make_format

LONG = "x" * 2**20
BODIES = {
    "tensorflow": ("/v1/models/m:predict", '{{"instances":[1],{}}}'),
    "tensorflow-columns": ("/v1/models/m:predict", '{{"inputs":{{"a":[1]}},{}}}'),
    "open-inference": (
        "/v2/models/m/infer",
        '{{"inputs":[{{"name":"x","shape":[1],"datatype":"FP32","data":[1]}}],{}}}',
    ),
    "openai-embeddings": ("/v1/embeddings", '{{"input":"a",{}}}'),
    "tei": ("/embed", '{{"inputs":"a",{}}}'),
    "torchserve": ("/predictions/m", '{{"instances":[1],{}}}'),
}


def key(protocol, beside):
    path, body = BODIES[protocol]
    message = Message(body.format(beside).encode())
    return make_format(protocol).take(Request("POST", path, message)).key


@pytest.mark.parametrize("protocol", BODIES)
@pytest.mark.parametrize(
    "beside",
    ['"a":"{}"', '"{}":1', '"parameters":{{"a":"{}"}}', '"parameters":{{"{}":1}}'],
)
def test_keys_of_long_texts_are_short_and_differ(protocol, beside):
    """They are remembered by the thousand after their requests."""
    one, other = (key(protocol, beside.format(LONG + end)) for end in "ab")
    assert one == key(protocol, beside.format(LONG + "a")) != other
    assert len(pickle.dumps(one)) < 4096


def test_keys_of_many_columns_are_short():
    """The names of all are in it."""
    names = ",".join(f'"column {number}":[1]' for number in range(1000))
    body = b'{"inputs":{%b}}' % names.encode()
    request = Request("POST", "/v1/models/m:predict", Message(body))
    share = make_format("tensorflow-columns").take(request)
    assert len(pickle.dumps(share.key)) < 4096
