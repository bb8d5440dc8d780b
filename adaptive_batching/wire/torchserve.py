"""TorchServe with `service_envelope=json`: `instances` in, `predictions` out.

`POST /predictions/M[/V]`. Without that envelope a body is one item, whatever it is, and the server
can't be sent several: such bodies are passed on. Its KServe paths are `tensorflow`'s.
"""

import re

from adaptive_batching.wire.exchange import Request
from adaptive_batching.wire.listed import RowFormat, Rows, RowShare, share_of

_PATH = re.compile(r"/predictions/[^/]+(?:/[^/]+)?")


class TorchServe(RowFormat[RowShare]):
    """Rows in the JSON envelope."""

    def wants(self, method: str, path: str) -> bool:
        """Whether it is for predictions."""
        return method == "POST" and _PATH.fullmatch(path) is not None

    def read(self, request: Request) -> RowShare | None:
        """Understand a request, whatever type it says it has; see `Format.read`."""
        return share_of(request, Rows.read(request.message.body, ("instances",)), ("predictions",))
