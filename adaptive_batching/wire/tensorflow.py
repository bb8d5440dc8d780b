"""TensorFlow Serving's REST API, which KServe calls V1: rows of `instances`, rows of `predictions`.

`POST /v1/models/M[/versions/V|/labels/L]:predict`, `:classify`, `:regress`, `:explain`. KServe's
CloudEvents and whatever else is not understood are left alone.
"""

import re
from functools import lru_cache

from adaptive_batching.wire.columns import columns_of
from adaptive_batching.wire.exchange import Request
from adaptive_batching.wire.listed import RowFormat, Rows, RowShare, share_of

_PATH = re.compile(
    r"/v1/models/[^/:]+(?:/(?:versions|labels)/[^/:]+)?:(predict|classify|regress|explain)"
)
_PATHS = 256  # that are remembered
_LISTS = {
    "predict": ("instances", "predictions"),
    "explain": ("instances", "explanations"),
    "classify": ("examples", "results"),  # as the server has it; its documentation says `result`
    "regress": ("examples", "results"),
}


class TensorFlowServing(RowFormat[RowShare]):
    """Rows; columns too, if the model is fit for that.

    Args:
        columns: Whether all inputs and outputs have the batch as their first dimension, so that
            requests with `inputs` may be merged; otherwise they are passed on.
    """

    def __init__(self, *, columns: bool = False) -> None:
        self._columns = columns

    def wants(self, method: str, path: str) -> bool:
        """Whether it is one of the verbs."""
        return method == "POST" and _verb(path) is not None

    def read(self, request: Request) -> RowShare | None:
        """Understand a request; see `Format.read`."""
        verb = _verb(request.path)
        if verb is None or _is_cloud_event(request):
            return None
        items, results = _LISTS[verb]
        columns = columns_of(request) if self._columns and verb == "predict" else None
        if columns is not None:
            return columns
        rows = Rows.read(request.message.body, (items,))
        if rows.has_beside("inputs"):
            return None  # it is for the server to say that both are too many
        return share_of(request, rows, (results,))


@lru_cache(_PATHS)
def _verb(path: str) -> str | None:
    """What a path asks for; looked up, as it is asked twice for each request."""
    found = _PATH.fullmatch(path)
    return None if found is None else found[1]


def _is_cloud_event(request: Request) -> bool:
    """In one of the two modes of its HTTP binding; of one in headers these two are required."""
    headers = request.message.headers
    in_headers = "ce-specversion" in headers or "ce-id" in headers
    return in_headers or headers.get("content-type", "").startswith("application/cloudevents")
