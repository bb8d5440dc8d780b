"""`/debug/batches`: the last batches with their members, why they left and how long they took."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import msgspec
from aiohttp import web

from adaptive_batching.instrumentation.live.watch import Watched
from adaptive_batching.instrumentation.recent_batches import KEPT, Ran
from adaptive_batching.marshal.http.error_responses import Rejected

_DEFAULT = 50


def recent_batches(watched: Mapping[str, Watched], request: web.BaseRequest) -> web.Response:
    """The last batches of each endpoint, newest first, as JSON.

    `?endpoint=/predict` asks for one endpoint, `?limit=256` for more batches than 50 of each.

    Args:
        watched: By the endpoint's label.
        request: With the query.

    Raises:
        Rejected: There is no such endpoint, or the limit is none.
    """
    wanted, limit = request.query.get("endpoint"), _limit(request)
    if wanted is not None and wanted not in watched:
        raise Rejected(404, "not_found")
    labels = watched if wanted is None else [wanted]
    now, clock = monotonic(), datetime.now(UTC)
    shown = {
        label: [
            dict(
                _described(
                    ran,
                    clock - timedelta(seconds=now - ran.record.finished),
                    costed=watched[label].dispatcher.limits.costs is not None,
                )
            )
            for ran in watched[label].latest.newest(limit)
        ]
        for label in labels
    }
    return web.Response(body=msgspec.json.encode(shown), content_type="application/json")


def _limit(request: web.BaseRequest) -> int:
    text = request.query.get("limit", str(_DEFAULT))
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text)):
        raise Rejected(400, "bad_limit")
    return min(int(text), KEPT)


def _described(ran: Ran, ended: datetime, *, costed: bool) -> Iterator[tuple[str, Any]]:
    record = ran.record
    yield "number", ran.number
    yield "ended", ended
    yield "worker", record.worker
    yield "reason", record.reason.value
    yield "outcome", record.outcome.value
    yield "items", record.size
    yield "requests", record.requests
    if record.padded_size > record.size:
        yield "padded_items", record.padded_size
    if costed:
        yield "cost", record.cost
        yield "padding", record.cost - record.own_cost
    yield "left_waiting", record.left_waiting
    yield "oldest_waited_seconds", round(record.released - record.oldest_arrived, 6)
    yield "predicted_seconds", round(record.predicted, 6)
    yield "measured_seconds", round(record.duration, 6)
    yield "members", ran.members
