"""Embeddings of OpenAI's API: each client has its own, counted from 0, and its part of usage."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire.exchange import Message, Request, Unsplittable
from adaptive_batching.wire.openai import OpenAIEmbeddings
from tests.wire.texts import names, values

strings = names.map(json.dumps)
tokens = st.lists(st.integers(0, 99), min_size=1, max_size=4).map(json.dumps)


def request(body, path="/v1/embeddings"):
    return Request("POST", path, Message(body.encode()))


def ask(text, **beside):
    others = "".join(f"{json.dumps(name)}:{json.dumps(value)}," for name, value in beside.items())
    return OpenAIEmbeddings().take(request("{" + others + '"input":' + text + "}"))


def answer(embeddings, usage=None, order=None):
    """What a server says; `order` is that in which it happens to say it."""
    entries = [
        f'{{"object":"embedding","index":{index},"embedding":{text}}}'
        for index, text in enumerate(embeddings)
    ]
    data = ",".join(entries[index] for index in order or range(len(entries)))
    used = "" if usage is None else ',"usage":' + json.dumps(usage)
    return Message(f'{{"object":"list","data":[{data}],"model":"m"{used}}}'.encode())


@given(st.data(), st.sampled_from([strings, tokens]))
def test_merge_and_split_are_inverse(data, texts):
    """From a server that answers with what it was given, in any order, each gets his own."""
    clients = data.draw(st.lists(st.lists(texts, min_size=1, max_size=3), min_size=2, max_size=4))
    shares = [ask("[" + ",".join(items) + "]") for items in clients]
    form = OpenAIEmbeddings()
    merged = json.loads(form.merge(shares).body)["input"]
    items = [item for client in clients for item in client]
    assert merged == [json.loads(item) for item in items]
    order = data.draw(st.permutations(range(len(items))))
    parts = form.split(shares, answer(items, order=order))
    assert [part.body for part in parts] == [answer(client).body for client in clients]


@given(st.lists(values(), min_size=1, max_size=7), st.integers(1, 3))
def test_cut_and_join_are_inverse(embeddings, limit):
    """Embeddings are opaque; they are counted through, and what was used is added up."""
    form = OpenAIEmbeddings()
    share = ask(json.dumps(["text"] * len(embeddings)))
    answers = []
    for piece in form.cut(share, limit):
        own = embeddings[len(answers) * limit :][: piece.size]
        answers.append(answer(own, {"prompt_tokens": piece.size, "total_tokens": 2}))
    used = {"prompt_tokens": len(embeddings), "total_tokens": 2 * len(answers)}
    told = json.dumps(used, separators=(",", ":"))
    assert form.join(share, answers).body == answer(embeddings).body[:-1] + (
        f',"usage":{told}}}'.encode()
    )


def test_no_usage_counts_what_a_batch_is_filled_up_with():
    """Of 8 tokens for four equal texts, one of them a pad, the three that were sent used 6."""
    form = OpenAIEmbeddings()
    share = ask('["ab","ab","ab"]')
    shares = [share, form.repeated(share, -1, 1)]
    assert json.loads(form.merge(shares).body)["input"] == ["ab"] * 4
    own, _ = form.split(shares, answer(["[1]", "[2]", "[3]", "[3]"], {"prompt_tokens": 8}))
    told = json.loads(own.body)
    assert (len(told["data"]), told["usage"]) == (3, {"prompt_tokens": 6})


def test_the_four_forms_of_input():
    """A string, strings, tokens and several texts' tokens; strings are not mixed with tokens."""
    shares = [ask('"a"'), ask('["b","c"]'), ask("[1,2,3]"), ask("[[4],[5,6]]")]
    assert [share.size for share in shares] == [1, 2, 1, 2]
    assert shares[0].key == shares[1].key != shares[2].key == shares[3].key
    form = OpenAIEmbeddings()
    assert form.merge(shares[:2]).body == b'{"input":["a","b","c"]}'
    assert form.merge(shares[2:]).body == b'{"input":[[1,2,3],[4],[5,6]]}'
    assert form.merge(shares[2:3]).body == b'{"input":[1,2,3]}'


def test_what_keeps_requests_apart():
    """The model, the encoding, the dimensions and all else; not who asks."""
    first = ask('"a"', model="m", user="me")
    assert first.key == ask('"b"', user="you", model="m").key
    for other in ({"model": "n"}, {"model": "m", "encoding_format": "base64"}, {"dimensions": 2}):
        assert ask('"a"', **other).key != first.key


@pytest.mark.parametrize(
    "text", ["[]", '["a",1]', '["a",[1]]', '[1,"a"]', "1", "null", '{"a":1}', "[null]", "[[1],2]"]
)
def test_what_is_passed_on(text):
    """Mixtures, nothing at all, and what is no text."""
    assert ask(text) is None
    assert OpenAIEmbeddings().take(request('{"input":"a"}', "/v1/completions")) is None


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(0, 10**6))
def test_the_parts_of_the_usage_make_the_whole(lengths, used):
    """By the lengths of the texts, which is said; nothing is lost to rounding."""
    shares = [ask(json.dumps("x" * length)) for length in lengths]
    usage = {"prompt_tokens": used, "total_tokens": used, "details": None}
    parts = OpenAIEmbeddings().split(shares, answer(["0"] * len(lengths), usage))
    told = [json.loads(part.body)["usage"] for part in parts]
    assert sum(each["prompt_tokens"] for each in told) == used
    assert all(each["details"] is None for each in told)
    assert all(part.headers["x-usage-estimated"] == "true" for part in parts)


def test_what_tokens_use_is_known():
    """One for each, and nothing is estimated."""
    usage = {"prompt_tokens": 4, "total_tokens": 4}
    parts = OpenAIEmbeddings().split([ask("[1]"), ask("[7,8,9]")], answer(["0", "1"], usage))
    assert [json.loads(part.body)["usage"]["total_tokens"] for part in parts] == [1, 3]
    assert "x-usage-estimated" not in parts[0].headers


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (answer(["1"]), "expected 2 embeddings, got 1"),
        (Message(b'{"data":[{"index":0},{"index":0}]}'), "numbered from 0 to 1"),
        (Message(b'{"data":[{"index":0},{}]}'), "numbered from 0 to 1"),
        (Message(b'{"data":[{"index":1},{"index":2}]}'), "numbered from 0 to 1"),
        (Message(b'{"error":"no"}'), "the answer is not cut"),
        (Message(b'{"data":[{"index":0},{"index":1}],"usage":1}'), "the answer is not cut"),
    ],
)
def test_answers_that_can_not_be_split(said, message):
    """Nobody is given what may be another's."""
    with pytest.raises(Unsplittable, match=message):
        OpenAIEmbeddings().split([ask('"a"'), ask('"b"')], said)
