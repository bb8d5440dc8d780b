"""JSON is cut into the very bytes of its parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire.splice import NotCuttable, elements, joined, members
from tests.wire.texts import names, spaces, values


@given(st.data(), st.lists(values()))
def test_elements_are_what_was_joined(data, parts):
    """Whatever stands between the commas comes back as it was, without the spaces around it."""
    spaced = [data.draw(spaces) + part + data.draw(spaces) for part in parts]
    text = data.draw(spaces) + "[" + ",".join(spaced) + "]" + data.draw(spaces)
    assert [bytes(part).decode() for part in elements(text.encode())] == parts
    assert [bytes(part) for part in elements(joined([part.encode() for part in parts]))] == [
        part.encode() for part in parts
    ]


@given(st.dictionaries(names, values()))
def test_members_are_what_was_written(parts):
    """By name, whatever the name is."""
    import json

    text = "{" + ",".join(f"{json.dumps(name)} : {value}" for name, value in parts.items()) + "}"
    found = {name: bytes(value).decode() for name, value in members(text.encode()).items()}
    assert found == parts


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[1", b"[1,]", b"[,1]", b"[NaN,]", b"[NaN}", b"[NaN] x", b"null", b'"[1]"', b"{}"],
)
def test_what_is_no_array(text):
    """Nothing is guessed."""
    with pytest.raises(NotCuttable):
        elements(text)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b'{"a"}', b'{"a":}', b"{1:NaN}", b'{"a":NaN', b'{"a":NaN}}', b'{"\\x":NaN}'],
)
def test_what_is_no_object(text):
    """Nothing is guessed."""
    with pytest.raises(NotCuttable):
        members(text)


def test_nested_too_deep_for_the_strict_parser():
    """The other way has no stack that could overflow."""
    deep = b"[" * 50_000 + b"]" * 50_000
    assert [bytes(each) for each in elements(b"[" + deep + b",1]")] == [deep, b"1"]


@pytest.mark.parametrize("stray", [b'NaN,"a', b"NaN,/*", b"NaN,'a", b"NaN,{]", b"NaN,#", b"NaN]"])
def test_nothing_that_could_swallow_what_follows(stray):
    """In a merged array the items of others follow."""
    with pytest.raises(NotCuttable):
        elements(b"[" + stray + b"]")
