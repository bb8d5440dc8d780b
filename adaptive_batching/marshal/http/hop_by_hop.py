"""Which headers of a message are about the connection that it came on, and end with it."""

from collections.abc import Iterable

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


def passed_on(headers: CIMultiDictProxy[str], also_dropped: Iterable[str] = ()) -> CIMultiDict[str]:
    """The headers that go to the other side, as they came (RFC 9110, 7.6.1).

    What `Connection` names is dropped too, but for what could be aimed at the other side's ideas
    of who is asking: a client must not make us drop `Authorization`.
    """
    named = {
        name.strip().lower()
        for value in headers.getall("Connection", ())
        for name in value.split(",")
    }
    dropped = HOP_BY_HOP | {name.lower() for name in also_dropped} | (named - _KEPT)
    kept = [(name, value) for name, value in headers.items() if name.lower() not in dropped]
    return CIMultiDict(kept)


_KEPT = frozenset(
    {"authorization", "cookie", "host", "content-length", "content-type", "x-api-key"}
)
