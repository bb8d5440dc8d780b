"""Why requests had a batch to themselves: for the metrics, and once for the log."""

import logging
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from adaptive_batching.core import Batch, BatchRecord, BoundedKey
from adaptive_batching.core.job import Reason
from adaptive_batching.marshal.sidecar.batch_key import HeaderRules, pattern_of

_LOOKED_AT = 8  # batches that have just left; each holds the headers of one request
_WINDOW = 256  # requests of which most have to be alone because of one header
_AGAIN = frozenset({Reason.BISECT, Reason.RETRY})
_log = logging.getLogger("adaptive_batching")


class Alone:
    """Observes the batches of one route.

    A request is compared with those that waited while it did. Most of these have left before it;
    if it is the first to leave, it is compared with the next.

    Args:
        name: The route.
        rules: Which of its headers keep requests apart; may be changed.

    Attributes:
        counts: Requests that were alone, by the reason and the pattern of the header if it is one.
    """

    def __init__(self, name: str, rules: HeaderRules) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.rules = rules
        self._name = name
        self._left: deque[BatchRecord] = deque(maxlen=_LOOKED_AT)
        self._undecided: BatchRecord | None = None
        self._seen = 0
        self._headers: Counter[str] = Counter()  # in this window
        self._named: set[str] = set()

    def batch_ended(self, _: Batch, record: BatchRecord) -> None:
        """Count it if it is one request."""
        if self._undecided is not None:
            self._count(self._undecided, [record])
            self._undecided = None
        if record.requests == 1:
            together = [
                each
                for each in self._left
                if each.oldest_arrived < record.released and record.oldest_arrived < each.released
            ]
            if record.left_waiting and not together:
                self._undecided = record
            else:
                self._count(record, together)
        self._left.append(record)
        self._seen += record.requests
        if self._seen >= _WINDOW:
            self._warn()
            self._seen = 0
            self._headers.clear()

    def _count(self, record: BatchRecord, together: Sequence[BatchRecord]) -> None:
        reason, differing = _reason(record, together)
        self._headers.update(differing)
        header = max(sorted(differing), key=self._headers.__getitem__, default="")
        self.counts[reason, pattern_of(header)] += 1

    def _warn(self) -> None:
        for header, count in self._headers.most_common(1):
            if 2 * count <= self._seen or header in self._named:
                continue
            self._named.add(header)
            option = "--shared-header (shared_headers)"
            if header in self.rules.partition_by:
                option = "--partition-by (partition_by), where it is named now"
            _log.warning(
                "%s: %d of %d requests were sent alone because their %r differs from that of"
                " others; if the server need not see it, let them share batches by %s",
                *(self._name, count, self._seen, header, option),
            )


def _reason(record: BatchRecord, together: Sequence[BatchRecord]) -> tuple[str, set[str]]:
    """Why a request was alone, and the headers by which it differs if these are why.

    Of several requests that waited with it the one counts that differs in the fewest headers.
    """
    if record.reason in _AGAIN:
        return "again", set()
    own = _whole_key(record)
    if own is None:
        return "set_apart", set()
    method, target, headers, share = own
    keys = [key for key in map(_whole_key, together) if key is not None]
    differing = [
        {name for name, _ in {*headers} ^ {*key[2]}}
        for key in keys
        if key == (method, target, key[2], share)
    ]
    if not differing:
        return "request" if together else "no_company", set()
    least = min(differing, key=len)
    return "header" if least else "limit", least


def _whole_key(record: BatchRecord) -> tuple[Any, ...] | None:
    """The batch key of a batch: `Forwarded.key`; None if its request was set apart."""
    key = record.key.key if isinstance(record.key, BoundedKey) else record.key
    return key if isinstance(key, tuple) else None
