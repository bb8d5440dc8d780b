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


@pytest.mark.parametrize("element", [b"[" * 100_000 + b"]" * 100_000, b"a", b"Inf", b"01", b"'a'"])
def test_what_only_a_lenient_parser_reads(element):
    """It is not cut, for the server may understand it otherwise than we do.

    The depth is beyond what hypothesis lets Python recurse in tests that ran before.
    """
    with pytest.raises(NotCuttable, match="strict JSON"):
        elements(b"[" + element + b",1]")


_LONG = b"0.1," * 2**18
_NO_NUMBERS = [b"NaN", b"-Infinity", b'{"NaN": ["Infinity", NaN]}', b"7E0", b'"7E1 \\"NaN"']


def test_numbers_that_strict_json_lacks_stay_what_they_are():
    """In a long text too, wherever they stand: in strings, and beside what could stand for them."""
    text = b"[" + _LONG + b",".join(_NO_NUMBERS) + b"]"
    assert [bytes(part) for part in elements(text)][-len(_NO_NUMBERS) :] == _NO_NUMBERS
    found = members(b'{"a":[' + _LONG + b'NaN],"b":-Infinity,"c":"Infinity"}')
    assert {name: bytes(value)[-4:] for name, value in found.items()} == {
        "a": b"NaN]",
        "b": b"nity",
        "c": b'ity"',
    }


def test_no_item_becomes_its_neighbours_beside_such_a_number():
    """What would shift them is not cut; and nothing has nothing in it."""
    with pytest.raises(NotCuttable):
        elements(b"[" + _LONG + b'NaN,"\0",1]')
    assert elements(b"[" + b" " * 2**15 + b"]") == []


@pytest.mark.parametrize("name", [b"NaN", b"Infinity", b"7E0", b"7E\\u0030"])
def test_names_that_look_like_such_numbers_stay_what_they_are(name):
    """Or the text is not cut."""
    import json

    found = members(b'{"%b":NaN,"b":Infinity}' % name)
    expected = {json.loads(b'"%b"' % name): b"NaN", "b": b"Infinity"}
    assert {name: bytes(value) for name, value in found.items()} == expected


@pytest.mark.parametrize("end", [b'"' + b"z" * 2**20 + b'"', b"1", b"nan]", b"[" * 2**20])
def test_a_long_text_that_is_not_strict_is_not_cut(end):
    """Nobody else would be served meanwhile, for seconds."""
    with pytest.raises(NotCuttable, match=r"expected (strict )?JSON"):
        elements(b"[" + _LONG + end)


@pytest.mark.parametrize("stray", [b'NaN,"a', b"NaN,/*", b"NaN,'a", b"NaN,{]", b"NaN,#", b"NaN]"])
def test_nothing_that_could_swallow_what_follows(stray):
    """In a merged array the items of others follow."""
    with pytest.raises(NotCuttable):
        elements(b"[" + stray + b"]")
