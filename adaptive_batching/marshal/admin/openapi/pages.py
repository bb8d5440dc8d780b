"""Where a service describes itself: `/openapi.json` for programs, `/docs` for people."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from adaptive_batching.marshal.admin.openapi.document import Described, describe
from adaptive_batching.marshal.admin.openapi.html import SECURITY_POLICY, render
from adaptive_batching.marshal.http.response import Response

Documents = Mapping[str, Response]
"""The pages by path."""

_OF_PROGRAMS, _OF_PEOPLE = "/openapi.json", "/docs"
_TO_DOCS = Response(307, {"Location": "docs"}, b"")  # beside it, wherever the service is mounted


def make_documents(
    name: str, endpoints: Sequence[Described], others: Collection[str]
) -> dict[str, Response]:
    """Describe a service, once for all readers; `/` leads there, if it is no endpoint.

    Args:
        name: Of the service.
        endpoints: What it serves.
        others: The paths of its other pages.

    Raises:
        TypeError: Two declared types have one name.
    """
    document = describe(name, endpoints, {*others, _OF_PROGRAMS, _OF_PEOPLE})
    as_page = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": SECURITY_POLICY,
        "X-Content-Type-Options": "nosniff",
    }
    as_json = {"Content-Type": "application/json"}
    begins = {} if any(each.path == "/" for each in endpoints) else {"/": _TO_DOCS}
    return {
        **begins,
        _OF_PROGRAMS: Response(200, as_json, msgspec.json.encode(document)),
        _OF_PEOPLE: Response(200, as_page, render(document).encode()),
    }
