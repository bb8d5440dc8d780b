"""Which headers of a message go to the other side of the sidecar, and whether they can."""

from multidict import CIMultiDict, CIMultiDictProxy

from adaptive_batching.marshal.http.error_responses import Rejected

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers about the connection that a message came on, which end with it; in lower case."""


def passed_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """The headers of an answer that go to the other side, as they came (RFC 9110, 7.6.1)."""
    named = {
        name.strip().lower()
        for value in headers.getall("Connection", ())
        for name in value.split(",")
    }
    dropped = HOP_BY_HOP | (named - {"content-length", "content-type"})
    kept = [(name, value) for name, value in headers.items() if name.lower() not in dropped]
    return CIMultiDict(kept)


def check_text(text: str) -> None:
    """See to it that what is passed on to a server is passed on as it is.

    aiohttp's parser makes lone surrogates of bytes that are no UTF-8, and its writer, as of 3.14.5,
    leaves those out: `ad`, such a byte and `min` would become `admin` on their way.

    Raises:
        Rejected: It is none.
    """
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        raise Rejected(400, "malformed")
