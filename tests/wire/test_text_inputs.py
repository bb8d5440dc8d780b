"""Texts as embedding servers take them, of which there may be millions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire.exchange import Message, Request
from adaptive_batching.wire.openai import OpenAIEmbeddings
from adaptive_batching.wire.splice import NotCuttable
from adaptive_batching.wire.tei import TextEmbeddings
from adaptive_batching.wire.text_inputs import read_inputs
from tests.wire.steps import steps
from tests.wire.texts import names, numbers, spaces, values

strings = names.map(json.dumps)
tokens = st.integers(0, 10**20).map(str)
arrays = st.lists(values(numbers), max_size=2).map(lambda parts: f"[{','.join(parts)}]")
others = st.sampled_from(["null", "-1", "-0.5", "{}", "true", "NaN"])


def spaced(data, parts):
    """An array, with spaces wherever some may be."""
    return "[" + ",".join(data.draw(spaces) + part + data.draw(spaces) for part in parts) + "]"


@given(st.data(), st.sampled_from([strings, arrays]))
def test_several_texts_are_the_bytes_that_came(data, texts):
    """Strings or tokens, without the spaces around them."""
    parts = data.draw(st.lists(texts, min_size=1))
    kind, items = read_inputs(spaced(data, parts).encode())
    assert kind == ("strings" if texts is strings else "tokens")
    assert [bytes(item).decode() for item in items] == parts


@given(st.data(), st.lists(tokens, min_size=1))
def test_the_tokens_of_one_text_are_one_item(data, parts):
    """With all spaces in it, however large they are; a server may take 1.0 for 1."""
    for text in (spaced(data, parts), spaced(data, [f"{part}.0" for part in parts])):
        assert read_inputs(text.encode()) == ("tokens", [text.encode()])


@given(st.data(), st.lists(st.sampled_from([strings, tokens, arrays]), min_size=2, unique=True))
def test_a_mixture_is_no_input(data, kinds):
    """Nor are texts and what is none, wherever it stands."""
    stranger = data.draw(st.one_of(others, kinds[0]))
    parts = data.draw(st.lists(kinds[1], min_size=1))
    place = data.draw(st.integers(0, len(parts)))
    with pytest.raises(NotCuttable):
        read_inputs(spaced(data, [*parts[:place], stranger, *parts[place:]]).encode())


@pytest.mark.parametrize("text", ["", "[]", "[1 2]", "[1,,2]", '["a"', "[" * 100_000])
def test_what_is_no_array_of_something(text):
    """Nothing is guessed."""
    with pytest.raises(NotCuttable):
        read_inputs(text.encode())


@pytest.mark.parametrize("item", ["7", '"a"', "[7]"])
@pytest.mark.parametrize("last", ["7", '"a"', "[7]"])
@pytest.mark.parametrize(
    ("form", "path", "name"),
    [
        (OpenAIEmbeddings(), "/v1/embeddings", "input"),
        (TextEmbeddings(), "/embed", "inputs"),
        (TextEmbeddings(), "/predict", "inputs"),
    ],
)
def test_no_text_is_looked_at_by_itself(form, path, name, item, last):
    """Each line of Python for each of them would take as long as a small batch."""
    body = f'{{"{name}":[{",".join([item] * 10_000)},{last}]}}'
    request = Request("POST", path, Message(body.encode()))
    assert steps(lambda: form.take(request)) < 200
