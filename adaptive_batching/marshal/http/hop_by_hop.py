"""Which headers of a message are about the connection that it came on, and end with it."""

from multidict import CIMultiDict, CIMultiDictProxy

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
"""Their names in lower case."""


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
