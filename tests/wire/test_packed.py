"""Whole requests in one body: what each client sent, and what each gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire.exchange import Message, Request, Unsplittable
from adaptive_batching.wire.packed import Packed
from adaptive_batching.wire.whole_requests import (
    MARK,
    Malformed,
    WholeRequest,
    WholeResponse,
    pack,
    unpack_requests,
)

paths = st.text("abc/%20?", max_size=8).map("/{}".format)
headers = st.dictionaries(
    st.sampled_from(["cookie", "x-a", "accept"]), st.text("abcé, ", max_size=5), max_size=3
)
requests = st.builds(
    lambda path, query, body, named: Request("POST", path, Message(body, named), query),
    paths,
    st.text("a=1&%", max_size=5),
    st.binary(max_size=20),
    headers,
)
responses = st.builds(
    WholeResponse,
    st.binary(max_size=20),
    st.integers(200, 599),
    st.lists(st.tuples(st.sampled_from([b"set-cookie", b"x-b"]), st.just(b"v")), max_size=3),
)


@given(st.lists(requests, min_size=1, max_size=4), st.data())
def test_merge_and_split_are_inverse(asked, data):
    """The application sees what each client sent; each gets its body, status and headers."""
    form = Packed()
    shares = [form.take(request) for request in asked]
    assert {(share.key, share.size) for share in shares} == {("packed", 1)}
    assert unpack_requests(form.merge(shares).body) == [
        WholeRequest(
            "POST",
            request.path,
            request.query,
            [(name.encode(), text.encode()) for name, text in request.message.headers.items()],
            request.message.body,
        )
        for request in asked
    ]
    said = data.draw(st.lists(responses, min_size=len(asked), max_size=len(asked)))
    parts = form.split(shares, Message(pack(said)))
    for response, part in zip(said, parts, strict=True):
        named = [(name.encode(), value.encode()) for name, value in part.headers.items()]
        assert WholeResponse(part.body, part.status, named) == response


def test_nobody_speaks_for_another():
    """What is of the connection stays out, and the mark of packed bodies is no client's to say."""
    own = {"Connection": "close", "Content-Length": "2", MARK.title(): "secret", "X-A": "\udcff"}
    share = Packed("secret").take(Request("POST", "/", Message(b"{}", own)))
    assert share.request.headers == [(b"x-a", b"\xff")]
    assert Packed("secret").merge([share]).headers[MARK] == "secret"
    assert Packed().take(Request("GET", "/", Message(b""))) is None


def test_responses_keep_to_the_connection_of_each():
    """An application does not say how long a body is, or that the connection ends."""
    form = Packed()
    share = form.take(Request("POST", "/", Message(b"")))
    named = [(b"Connection", b"close"), (b"Content-Length", b"9"), (b"X-A", b"1")]
    (part,) = form.split([share], Message(pack([WholeResponse(b"", 200, named)])))
    assert dict(part.headers) == {"x-a": "1"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "is not packed"),
        (b"{}", "is not packed"),
        (pack([WholeResponse(b"", 99)]), "is not packed"),
        (pack([]), "expected 1 responses, got 0"),
    ],
)
def test_answers_that_can_not_be_split(body, message):
    """Such as those of an application that knows nothing of packed bodies."""
    form = Packed()
    share = form.take(Request("POST", "/", Message(b"")))
    with pytest.raises(Unsplittable, match=message):
        form.split([share], Message(body))


def test_more_requests_than_anybody_needs():
    """A few bytes don't make an application keep millions."""
    with pytest.raises(Malformed, match="65536"):
        unpack_requests(b"\xdd\x00\x10\x00\x00" + b"\x90" * 2**20)


@pytest.mark.parametrize("secret", ["", "a\nb", " a", "é"])
def test_secrets_that_are_none(secret):
    """An empty file is not taken for a secret."""
    with pytest.raises(ValueError, match="secret_file: expected a secret"):
        Packed(secret)
