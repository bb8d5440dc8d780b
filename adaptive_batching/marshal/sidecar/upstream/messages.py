"""What goes to a model server and what comes back, and what that means for the batch."""

from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf
from typing import Any

import msgspec

from adaptive_batching.errors import (
    UpstreamAnswered,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamDenial,
    UpstreamOutOfMemory,
    UpstreamRefusal,
)
from adaptive_batching.marshal.http.headers import Headers
from adaptive_batching.marshal.sidecar.batch_key import HeaderRules
from adaptive_batching.wire.exchange import Format, Message

_BUSY = frozenset({429, 503})
_REFUSED = frozenset({400, 413, 422, 500})
_OUT_OF_MEMORY = 507
_SAY_OUT_OF_MEMORY = frozenset({429, 500, 503})  # TensorFlow Serving: 429, RESOURCE_EXHAUSTED
_TEXTS = (b"out of memory", b"outofmemory", b"oom when allocating", b"failed to allocate memory")
_READ = 4096  # bytes of an error that are looked at


class Forwarded(msgspec.Struct, frozen=True):
    """A client's request, or a piece of one, on its way into a batch.

    Members of one batch have the same format, target and headers: they are their batch key.

    Attributes:
        form: The protocol.
        share: Its items.
        method: Of HTTP.
        target: Path and query, as they came.
        rules: What becomes of its headers.
        headers: Those that are part of the batch key.
        addresses: The names of those that say where it came from.
        head: All of them; None if its share holds them.
        due: When its client gives up (monotonic seconds).
        filler: Index of its item that fills up a batch; see `Costs.filler`.
    """

    form: Format[Any]
    share: Any
    method: str
    target: str
    rules: HeaderRules
    headers: tuple[tuple[str, str], ...] = ()
    addresses: tuple[str, ...] = ()
    head: Headers | None = None
    due: float = inf
    filler: int = -1

    @property
    def own(self) -> Sequence[tuple[str, str]]:
        """Its headers if it is alone in its batch: all, but for those that its share holds."""
        return self.headers if self.head is None else self.head.spelled()

    @property
    def key(self) -> Hashable:
        """What has to be equal for two to be sent together."""
        return self.method, self.target, self.headers, self.share.key

    @property
    def place(self) -> tuple[str, str]:
        """Its method and path, of which clients can't make up as many as of queries and headers."""
        return self.method, self.target.partition("?")[0]


class Reply(msgspec.Struct, frozen=True):
    """What a server answered to one request.

    Attributes:
        status: Of HTTP.
        message: The body, and the headers that are about it or about trying again.
        batch_id: Of the batch that the request was in; counted from 1.
        batch_size: Items in that batch.
        seconds: That the server took.
    """

    status: int
    message: Message
    batch_id: int
    batch_size: int
    seconds: float


def meaning(reply: Reply) -> type[UpstreamAnswered] | None:
    """What kind of error a server answered with; None if it did what it was asked.

    Raises:
        UpstreamBroken: It wants us to go somewhere else or to speak otherwise, which we don't.
    """
    status = reply.status
    if 200 <= status < 300:
        return None
    if status < 400:
        raise UpstreamBroken(
            f"answered {status} to a batch; expected a result, for none is followed"
        )
    if status == _OUT_OF_MEMORY or (status in _SAY_OUT_OF_MEMORY and _says_so(reply.message.body)):
        return UpstreamOutOfMemory
    if status in _BUSY:
        return UpstreamBusy
    return UpstreamRefusal if status in _REFUSED else UpstreamDenial


def _says_so(body: bytes) -> bool:
    text = body[:_READ].lower()
    return any(each in text for each in _TEXTS)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server wants to be left alone; None if it does not say, or not clearly."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal() and len(text) <= 9:
        return float(text)
    again, now = _date(text), _date(headers.get("date", ""))  # both by its own clock
    return None if again is None or now is None else max(0.0, (again - now).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)  # RFC 9110, 5.6.7
