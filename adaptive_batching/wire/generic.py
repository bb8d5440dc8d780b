"""Any JSON API that takes a list of items and answers with a list of results.

JSON pointers (RFC 6901) say where: `/inputs` and `/outputs`, or nothing for a bare list.
"""

import re
from typing import ClassVar

from adaptive_batching.errors import SettingError
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


def parse_pointer(name: str, text: str) -> tuple[str, ...]:
    """Read a JSON pointer whose steps are names: `/inputs`, `/data/rows`, or nothing.

    Args:
        name: Of the setting that says it.
        text: What it says.

    Raises:
        SettingError: It does not begin with a slash, or has a ~ that stands for nothing.
    """
    if not text:
        return ()
    if not text.startswith("/") or re.search("~(?![01])", text):  # RFC 6901, 3
        msg = f"expected a JSON pointer such as /inputs, or nothing, got {text!r}"
        raise SettingError(name, msg)
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/"))
