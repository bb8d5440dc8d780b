"""Whatever comes, a format says that it is nothing for it; no client's body is our failure."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptive_batching.wire.exchange import Message, Request, Unsplittable
from adaptive_batching.wire.formats import PROTOCOLS, make_format

WORDS = [
    "inputs", "outputs", "instances", "predictions", "parameters", "name", "shape", "datatype",
    "data", "id", "binary_data_size", "input", "index", "usage", "prompt_tokens", "BYTES", "FP32",
]  # fmt: skip
LEAVES = st.sampled_from(
    [None, True, 0, 1, 2, -1, 2**70, 0.5, float("nan"), "", "a", "7", *WORDS[-4:]]
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=20,
)
SHAPES = st.lists(st.sampled_from([1, 2]), max_size=2) | st.lists(LEAVES, max_size=2)
SIZES = st.sampled_from([0, 1, 4, 8, -1, 2**70, "4", None, 1.5])
TENSORS = st.builds(
    lambda shape, datatype, beside: {"name": "x", "shape": shape, "datatype": datatype, **beside},
    SHAPES,
    st.sampled_from(["FP32", "BYTES", "BOOL", "X"]),
    st.builds(lambda data: {"data": data}, st.lists(LEAVES, max_size=4) | ANYTHING)
    | st.builds(lambda size: {"parameters": {"binary_data_size": size}}, SIZES),
)


def messages(member):
    """Tensors, most of them such as could be."""
    more = st.dictionaries(st.sampled_from(["id", "parameters", "outputs"]), ANYTHING, max_size=1)
    tensors = st.lists(TENSORS, min_size=1, max_size=2)
    return st.builds(lambda beside, own: {**beside, member: own}, more, tensors)


PATHS = {
    "open-inference": "/v2/models/m/infer",
    "openai-embeddings": "/v1/embeddings",
    "tei": "/predict",
    "torchserve": "/predictions/m",
}


@st.composite
def bodies(draw, name, member):
    """JSON, what looks like it, or MessagePack; with bytes behind it that a header may speak of."""
    value = draw(messages(member) | ANYTHING)
    text = json.dumps(value).encode()
    if name == "msgpack":
        with suppress(OverflowError):
            text = msgspec.msgpack.encode(value)
    cut = draw(st.sampled_from([len(text)] * 3 + [len(text) // 2]))
    odd = st.sampled_from(["-1", "9" * 5000, "x", "²"])
    length = draw(st.none() | st.just(str(cut)) | odd)
    tail = draw(st.binary(max_size=8)) if length is not None else b""
    headers = {} if length is None else {"inference-header-content-length": length}
    return Message(text[:cut] + tail, headers)


@pytest.mark.parametrize("name", PROTOCOLS)
@settings(max_examples=50)
@given(st.data())
def test_no_request_and_no_answer_is_too_strange(name, data):
    """A request is taken or left, an answer split or not; what is taken can be cut and merged."""
    body, answer = (data.draw(bodies(name, member)) for member in ("inputs", "outputs"))
    form = make_format(name, "/inputs" if name in {"bentoml", "json"} else "")
    path = PATHS.get(name, "/v1/models/m:predict")
    share = form.take(Request("POST", path, body))
    if share is None:
        return
    assert share.size == sum(piece.size for piece in form.cut(share, 1))
    assert form.merge([share, share]).body
    assert hash(share.key) == hash(form.take(Request("POST", path, body)).key)
    with suppress(Unsplittable):
        assert len(form.split([share, share], answer)) == 2
    with suppress(Unsplittable):
        form.join(share, [answer, answer])
