"""What the event loop pays for one hostile body: CPU to understand it, whatever comes of it."""

import gc
from math import inf
from time import thread_time

from adaptive_batching.bench.harness.hostile import Hostile, hostile
from adaptive_batching.bench.harness.report import Report, Row, Verdict
from adaptive_batching.errors import JobTooLarge
from adaptive_batching.wire.exchange import Request

_SIZE = 8 * 2**20  # bytes: --max-body, where nothing else is said
_MAX_BATCH_SIZE = 64
_RUNS = 5  # of which the least counts: others have the machine too
_SHOWN = 12
_LIMIT = 50.0  # milliseconds


async def measure(*, quick: bool) -> Report:
    """Take each body, make its batch key, and cut it into pieces."""
    rows: list[Row] = []
    for each in hostile():
        request = each.request(2**16 if quick else _SIZE)
        seconds = inf
        for _ in range(1 if quick else _RUNS):
            if not quick:  # among many objects it takes longer than all that is measured
                gc.collect()
            begun = thread_time()
            outcome = _taken(each, request)
            seconds = min(seconds, thread_time() - begun)
            if seconds * 1e3 < _LIMIT / 2:
                break  # it is not among those that matter
        rows.append({"body": each.name, "CPU (ms)": seconds * 1e3, "which is": outcome})
    rows.sort(key=lambda row: -float(row["CPU (ms)"] or 0.0))
    worst = float(rows[0]["CPU (ms)"] or 0.0)
    title = f"wire: CPU for one hostile body of 8 MiB, the worst {_SHOWN} of {len(rows)}"
    verdict = Verdict(str(rows[0]["body"]), worst, "at most", _LIMIT, "ms of CPU")
    return Report(title, rows[:_SHOWN], [verdict])


def _taken(each: Hostile, request: Request) -> str:
    try:
        share = each.form.take(request)
    except JobTooLarge:
        return "refused"
    if share is None:
        return "passed on"
    hash(share.key)
    if share.size <= _MAX_BATCH_SIZE:
        return "batched"
    return f"batched in {len(each.form.cut(share, _MAX_BATCH_SIZE))} pieces"
