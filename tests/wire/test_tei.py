"""Text Embeddings Inference: texts of any form share batches, each answered in its own form."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire.exchange import Message, Request, Unsplittable
from adaptive_batching.wire.tei import TextEmbeddings
from tests.wire.texts import names

FORM = TextEmbeddings()
texts = names.map(json.dumps)
pairs = st.tuples(texts, texts).map(lambda pair: f"[{pair[0]},{pair[1]}]")
batches = st.lists(st.one_of(pairs, texts.map("[{}]".format)), min_size=1, max_size=3)


def ask(inputs, path="/embed", more=""):
    return FORM.take(Request("POST", path, Message(f'{{"inputs":{inputs}{more}}}'.encode())))


@given(st.lists(st.one_of(texts, st.lists(texts, min_size=1)), min_size=2, max_size=4))
def test_embeddings(clients):
    """One text or several: a list of embeddings."""
    lists = [[client] if isinstance(client, str) else client for client in clients]
    shares = [
        ask(client if isinstance(client, str) else f"[{','.join(client)}]") for client in clients
    ]
    merged = json.loads(FORM.merge(shares).body)["inputs"]
    assert merged == [json.loads(text) for client in lists for text in client]
    answer = Message(f"[{','.join(text for client in lists for text in client)}]".encode())
    parts = FORM.split(shares, answer)
    assert [part.body.decode() for part in parts] == [f"[{','.join(own)}]" for own in lists]


@given(st.lists(st.one_of(texts, pairs, batches), min_size=2, max_size=4))
def test_classes(clients):
    """A text, a pair, or a list of these; only a list is answered with a list of answers."""
    shares = [
        ask(client if isinstance(client, str) else f"[{','.join(client)}]", "/predict")
        for client in clients
    ]
    merged = json.loads(FORM.merge(shares).body)["inputs"]
    assert all(isinstance(item, list) for item in merged)
    answers = [json.dumps({"of": item}) for item in merged]
    parts = FORM.split(shares, Message(f"[{','.join(answers)}]".encode()))
    for client, part in zip(clients, parts, strict=True):
        own = json.loads(part.body)
        if not isinstance(client, str):
            assert own == [{"of": json.loads(item)} for item in client]
        else:
            text = json.loads(client)
            assert own == {"of": text if isinstance(text, list) else [text]}


@given(st.one_of(texts, pairs, batches), st.integers(1, 3))
def test_classes_of_a_batch_that_is_filled_up(client, times):
    """A text or pair alone keeps its own form of an answer beside what fills its batch up."""
    share = ask(client if isinstance(client, str) else f"[{','.join(client)}]", "/predict")
    shares = [share, FORM.repeated(share, -1, times)]
    merged = json.loads(FORM.merge(shares).body)["inputs"]
    assert merged[-times:] == [merged[share.size - 1]] * times
    own, _ = FORM.split(shares, Message(json.dumps(merged).encode()))
    answered = json.loads(own.body)
    assert answered == (merged[0] if isinstance(client, str) else merged[: share.size])


def test_tokens_and_settings_keep_requests_apart():
    """Only the same endpoint, settings and kind of text go together."""
    keys = {
        ask('"a"').key,
        ask('["b","c"]').key,
        ask("[1,2]").key,
        ask('"a"', more=',"truncate":true').key,
        ask('"a"', "/embed_sparse").key,
        ask('"a"', "/embed_all").key,
        ask('"a"', "/predict").key,
    }
    assert len(keys) == 6


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        ('["a",[1]]', "/embed"),
        ("[]", "/embed"),
        ("[]", "/predict"),
        ('["a","b","c"]', "/predict"),
        ('[["a"],"b"]', "/predict"),
        ("[1]", "/predict"),
        ('"a"', "/rerank"),
        ('"a"', "/tokenize"),
    ],
)
def test_what_is_passed_on(inputs, path):
    """What the server would refuse, and what is about several texts at once."""
    assert ask(inputs, path) is None


def test_answers_that_can_not_be_split():
    """A list of the wrong length is nobody's."""
    with pytest.raises(Unsplittable, match="expected 2 results, got 1"):
        FORM.split([ask('"a"'), ask('"b"')], Message(b"[[1]]"))


def test_a_list_over_the_limit():
    """It goes in pieces, and its answer comes back whole."""
    share = ask('[["a"],["b","c"],["d"]]', "/predict")
    pieces = FORM.cut(share, 2)
    assert [json.loads(FORM.merge([piece]).body)["inputs"] for piece in pieces] == [
        [["a"], ["b", "c"]],
        [["d"]],
    ]
    assert FORM.join(share, [Message(b"[1,2]"), Message(b"[3]")]).body == b"[1,2,3]"
