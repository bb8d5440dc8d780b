"""TensorFlow Serving's REST API, which KServe calls V1: rows of `instances`, rows of `predictions`.

`POST /v1/models/M[/versions/V|/labels/L]:predict`, `:classify`, `:regress`, `:explain`. KServe's
CloudEvents and whatever else is not understood are left alone.
"""

import re

from adaptive_batching.wire.exchange import Request
from adaptive_batching.wire.listed import RowFormat, Rows, RowShare, share_of
from adaptive_batching.wire.splice import NotCuttable

_PATH = re.compile(
    r"/v1/models/[^/:]+(?:/(?:versions|labels)/[^/:]+)?:(predict|classify|regress|explain)"
)
_LISTS = {
    "predict": ("instances", "predictions"),
    "explain": ("instances", "explanations"),
    "classify": ("examples", "results"),  # as the server has it; its documentation says `result`
    "regress": ("examples", "results"),
}


class TensorFlowServing(RowFormat[RowShare]):
    """Rows; the columns of `inputs` are passed on as they are."""

    def wants(self, method: str, path: str) -> bool:
        """Whether it is one of the verbs."""
        return method == "POST" and _PATH.fullmatch(path) is not None

    def take(self, request: Request) -> RowShare | None:
        """Understand a request; None if it can't share a batch."""
        path = _PATH.fullmatch(request.path)
        if request.method != "POST" or path is None or _is_cloud_event(request):
            return None
        items, results = _LISTS[path[1]]
        try:
            rows = Rows.find(request.message.body, (items,))
        except NotCuttable:
            return None
        if b'"inputs":' in rows.before:
            return None  # it is for the server to say that both are too many
        return share_of(request, rows, (results,))


def _is_cloud_event(request: Request) -> bool:
    """In one of the two modes of their HTTP binding; both attributes are required in the second."""
    headers = request.message.headers
    binary = "ce-specversion" in headers or "ce-id" in headers
    return binary or headers.get("content-type", "").startswith("application/cloudevents")
