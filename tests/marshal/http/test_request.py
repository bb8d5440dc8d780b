"""What a request keeps of its head and of its body."""

import pytest

from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.headers import Headers, bytes_of
from adaptive_batching.marshal.http.request import Request, check_head, origin_form, path_of


def test_large_pieces_of_a_body_are_not_copied_and_small_ones_are_put_together():
    """A copy would cost what the way here did; pieces of a byte take 80 times their room."""
    request, large = Request("POST", "/", []), bytes(2**16)
    for piece in [*[b"1"] * 10_000, large, *[b"2"] * 10_000]:
        request.take(piece)
    assert len(request.pieces) <= 4
    assert any(piece is large for piece in request.pieces)
    assert request.body == b"1" * 10_000 + large + b"2" * 10_000


def test_a_body_in_one_piece_is_that_piece():
    """Most come so."""
    request, piece = Request("POST", "/", []), b"body"
    request.take(piece)
    assert request.body is piece


def test_headers_of_one_name_are_joined():
    """In their order, cookies as cookies are; and all are kept as they came."""
    pairs = [(b"Accept", b"a"), (b"cookie", b"x=1"), (b"ACCEPT", b" b\t"), (b"Cookie", b"y=2")]
    headers = Headers(pairs)
    assert headers == {"accept": "a, b", "cookie": "x=1; y=2"}
    assert headers.spelled() == [
        ("Accept", "a"),
        ("cookie", "x=1"),
        ("ACCEPT", "b"),
        ("Cookie", "y=2"),
    ]


@pytest.mark.parametrize("repeated", [(), ((b"x-user", b" bob"), (b"Host", b"h"))])
def test_each_header_of_one_name_is_told_by_itself(repeated):
    """The batch key has two values where a look-up by name finds them joined."""
    pairs = ((b"Host", b"h"), (b"X-User", b"alice "), *repeated)
    each = [(name.lower(), value) for name, value in Headers(pairs).each()]
    told = [(name.decode().lower(), value.decode().strip()) for name, value in pairs]
    assert each == told


def test_bytes_that_are_no_text_come_back_as_they_were():
    """Names of files come in UTF-8, and in what was before it."""
    for value in ("café".encode(), b"caf\xe9"):
        assert bytes_of(Headers([(b"X-File", value)])["x-file"]) == value


@pytest.mark.parametrize(
    ("target", "form", "path"),
    [
        ("/a", "/a", "/a"),
        ("/a?b=/c", "/a?b=/c", "/a"),
        ("/%61?", "/%61?", "/a"),
        ("http://evil/a?b", "/a?b", "/a"),
        ("HTTPS://evil", "/", "/"),
        ("http://evil?b", "/?b", "/"),
        ("*", None, "*"),
        ("evil:80", None, "evil:80"),
    ],
)
def test_targets(target, form, path):
    """The host of an absolute URL chooses nothing."""
    assert origin_form("GET", target) == form
    assert path_of(target) == path


def test_a_tunnel_has_no_target():
    """Be it to a path."""
    assert origin_form("CONNECT", "/a") is None


@pytest.mark.parametrize(
    ("version", "pairs", "length"),
    [
        ("1.1", [(b"Host", b"h")], 0),
        ("1.1", [(b"host", b"h"), (b"Content-Length", b"12")], 12),
        ("1.1", [(b"Host", b"h"), (b"Transfer-Encoding", b"Chunked")], None),
        ("1.0", [(b"Content-Length", b"1")], 1),
    ],
)
def test_how_a_body_is_framed(version, pairs, length):
    """By its length, or in chunks."""
    request = Request("POST", "/", pairs)
    check_head(request, version)
    assert request.length == length


@pytest.mark.parametrize(
    ("version", "pairs", "status"),
    [
        ("1.1", [], 400),
        ("1.1", [(b"Host", b"h"), (b"HOST", b"h")], 400),
        ("1.1", [(b"Host", b"h"), (b"Content-Length", b"18446744073709551615")], 400),
        ("1.1", [(b"Host", b"h"), (b"Content-Length", "²".encode())], 400),
        ("1.1", [(b"Host", b"h"), (b"Transfer-Encoding", b"gzip, chunked")], 400),
        ("1.0", [(b"Transfer-Encoding", b"chunked")], 400),
        ("0.9", [(b"Host", b"h")], 505),
        ("2.0", [(b"Host", b"h")], 505),
    ],
)
def test_a_head_that_others_might_read_otherwise_is_refused(version, pairs, status):
    """The parser lets these through."""
    with pytest.raises(Rejected) as refused:
        check_head(Request("POST", "/", pairs), version)
    assert refused.value.status == status
