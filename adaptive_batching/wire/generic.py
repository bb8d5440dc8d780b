"""Any JSON API that takes a list of items and answers with a list of results.

JSON pointers (RFC 6901) say where: `/inputs` and `/outputs`, or nothing for a bare list.
"""

from typing import ClassVar

from adaptive_batching.wire.exchange import Request
from adaptive_batching.wire.listed import Pointer, RowFormat, Rows, RowShare, share_of


class GenericJSON(RowFormat[RowShare]):
    """Rows wherever the pointers say.

    Args:
        items: Where a request has its list.
        results: Where an answer has its list.
    """

    rows: ClassVar[type[Rows]] = Rows
    """Lists of its notation."""

    def __init__(self, items: Pointer = (), results: Pointer = ()) -> None:
        self._items = tuple(items)
        self._results = tuple(results)

    def wants(self, method: str, path: str) -> bool:
        """Whether it has a body for the server to work on."""
        return method == "POST"

    def read(self, request: Request) -> RowShare | None:
        """Understand a request; see `Format.read`."""
        return share_of(request, self.rows.read(request.message.body, self._items), self._results)
