"""Model servers over HTTP that know nothing of us: requests are merged, sent, and answers split.

Each server has so many places, where one batch runs at a time; a place is a worker. How many of a
server's places are alive follows from how it has done: `upstream/outlier_detection.py`.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from math import ceil, inf
from ssl import SSLContext
from time import monotonic
from typing import Any

from multidict import CIMultiDict

from adaptive_batching.core import next_allowed
from adaptive_batching.errors import (
    UpstreamAnswered,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamDenial,
    UpstreamLost,
    UpstreamMismatch,
    UpstreamOutOfMemory,
    UpstreamRefusal,
    UpstreamTooLarge,
    UpstreamUnreachable,
    WorkerTimeout,
)
from adaptive_batching.instrumentation.log_rate_limit import LogRateLimit
from adaptive_batching.marshal.sidecar.upstream.addresses import Address, Location
from adaptive_batching.marshal.sidecar.upstream.client import Client
from adaptive_batching.marshal.sidecar.upstream.directory import Directory
from adaptive_batching.marshal.sidecar.upstream.messages import (
    Forwarded,
    Reply,
    meaning,
    retry_after,
)
from adaptive_batching.marshal.sidecar.upstream.models import UpstreamModels
from adaptive_batching.marshal.sidecar.upstream.outlier_detection import OutlierDetection, State
from adaptive_batching.marshal.sidecar.upstream.unbatchable_keys import UnbatchableKeys
from adaptive_batching.marshal.sidecar.upstream.verification import (
    TOLERANCE,
    Verification,
    Verified,
)
from adaptive_batching.wire.exchange import Message, Unsplittable, goes_as_it_came
from adaptive_batching.workers.handler.warm_up import Timing
from adaptive_batching.workers.interface import Health

_BROKEN_STATUSES = frozenset({502, 504})  # of a server that is a proxy before a broken one
_MAYBE_BROKEN = frozenset({UpstreamRefusal, UpstreamDenial})
_OF_A_TRACE = ("traceparent", "tracestate")
_log = logging.getLogger("adaptive_batching.upstream")


class Upstreams:
    """Sends batches to some servers that are alike; each takes so many at a time.

    Args:
        locations: Where they are.
        concurrency: Batches at a time that each server takes.
        timeout: Seconds that a batch may take.
        max_answer: Bytes that the body of an answer may have.
        tls: For servers that are reached by TLS; None for the certificates of the system.
        rehearsed: What is known of batches already: items, seconds and cost.
        padded_to: Items to which batches are filled up; empty if they are sent as they are.
        has_models: Whether the servers may be asked what batches a model takes.
        verify: Share of the requests in batches that are sent alone as well, to compare.
        about: More headers for a batch, asked for where it is sent: those of its trace.

    Attributes:
        responses: Answers by status.
        models: How large their batches may be.
    """

    def __init__(
        self,
        locations: Sequence[Location],
        *,
        concurrency: int,
        timeout: float,
        max_answer: int,
        tls: SSLContext | None = None,
        rehearsed: Sequence[tuple[int, float, float]] = (),
        padded_to: Sequence[int] = (),
        has_models: bool = False,
        verify: float = 0.0,
        about: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self.responses: Counter[int] = Counter()
        self._timeout = timeout
        self._max_answer = max_answer
        self._padded_to = padded_to
        self._about = about
        self._batch_ids = count(1)
        self._unbatchable_keys = UnbatchableKeys()
        self._logged = LogRateLimit(_sum_up)  # clients can make up any number of keys
        self._client = Client(tls)
        self._outliers = OutlierDetection(concurrency)
        self._directory = Directory(locations, self._outliers, concurrency)
        self.models = UpstreamModels(self._client, self._directory.next, asks=has_models)
        self._rehearsed = list(rehearsed)
        self._objection = ""
        self._verification = Verification(verify, TOLERANCE, self._differs)

    def __repr__(self) -> str:
        return f"<Upstreams {' '.join(self._directory.names)}>"

    @property
    def health(self) -> Health:
        """As many workers as batches may be under way now."""
        timings = [Timing(0, *known) for known in self._rehearsed]
        return self._directory.health._replace(warm_up=tuple(timings))

    @property
    def servers(self) -> dict[str, State]:
        """What becomes of each, by its name."""
        return self._directory.states()

    @property
    def verified(self) -> Verified:
        """How many answers were compared with those to the same requests alone."""
        return self._verification.counts

    @property
    def kept_apart(self) -> int:
        """Batch keys whose requests are, or were, sent alone."""
        return len(self._unbatchable_keys)

    @property
    def unasked(self) -> Mapping[str, int]:
        """Connections that were closed because a server sent something after its answer.

        By the pool: `batch` or `passed`.
        """
        return self._client.unasked

    async def start(self, on_change: Callable[[], None]) -> None:
        """Find the servers; see `Workers.start`. Whether they answer, batches will show."""
        await self._directory.start(on_change)

    def choose(self) -> tuple[Address, Client]:
        """Where a request that is not for a batch is sent, and with what."""
        return self._directory.next(), self._client

    def retune(self, timeout: float, max_answer: int, padded_to: Sequence[int]) -> None:
        """Go by other settings with batches that leave from now on."""
        self._timeout, self._max_answer, self._padded_to = timeout, max_answer, padded_to

    async def run(self, items: list[Forwarded], worker: int, /) -> list[Reply]:
        """Send one batch to the server of a place; see `Workers.run`.

        Raises:
            UpstreamAnswered: The server answered with an error.
            UpstreamLost: It can't be reached, or hung up.
            UpstreamBroken: What it answered is not for so many items, or no answer.
            WorkerTimeout: It did not answer in time.
        """
        with self._directory.place(worker) as address:
            replies = await self._run(items, address)
        if len(items) > 1:
            self._verification.look(items, replies, partial(self._alone, address))
        return replies

    def mergeable(self, item: Forwarded) -> bool:
        """Whether no batch of such items has been answered with what can't be shared out."""
        keys = self._unbatchable_keys
        return not keys or not keys.holds(item.key, item.place, monotonic())

    async def aclose(self) -> None:
        """Close all connections; see `Workers.aclose`."""
        try:
            await self.models.aclose()
            await self._verification.aclose()
            await self._directory.aclose()
            await self._client.aclose()
        finally:
            self._logged.flush()

    async def _run(self, items: Sequence[Forwarded], address: Address) -> list[Reply]:
        """Fill a batch up and send it; a request alone goes as it came where that can't be cut."""
        shares = [item.share for item in items]
        pads = self._pads(items)
        try:
            return await self._send(items, shares + pads, address)
        except UpstreamMismatch:
            if not (pads and goes_as_it_came(shares)):
                raise
            return await self._send(items, shares, address)

    def _pads(self, items: Sequence[Forwarded]) -> list[Any]:
        """What fills a batch up to the next size, if the model has one and answers can be cut."""
        if not self._padded_to:
            return []
        first, last = items[0], items[-1]
        size = sum(item.share.size for item in items)
        padded = next_allowed(self._padded_to, size)
        most = self.models.most(first.target) or 0
        if not size < padded <= most or not self.mergeable(first):
            return []
        return [first.form.repeated(last.share, last.filler, padded - size)]

    async def _send(
        self, items: Sequence[Forwarded], shares: Sequence[Any], address: Address
    ) -> list[Reply]:
        """Send a batch; shares beyond those of its items fill it up, and their answers are left."""
        first, begin = items[0], monotonic()
        size = sum(item.share.size for item in items)
        headers = self._headers(items, begin)
        status, answer = await self._ask(address, first, headers, first.form.merge(shares))
        self.responses[status] += 1
        reply = Reply(status, answer, next(self._batch_ids), size, monotonic() - begin)
        try:
            kind = meaning(reply)
        except UpstreamBroken as error:
            self._directory.erred(address)
            raise UpstreamBroken(f"{address.name}: {error}") from None
        self._heed(first, "" if kind is None else first.form.objection(answer.body))
        if kind is not None:
            self._judge(address, reply, kind, alone=len(items) == 1)
            raise kind(reply)
        return [
            Reply(part.status or status, part, reply.batch_id, size, reply.seconds)
            for part in self._split(address, first, shares, answer)[: len(items)]
        ]

    def _heed(self, first: Forwarded, objection: str) -> None:
        """Log why a server takes no batches, once until it does: no client can help it."""
        if objection and not self._objection:
            _log.warning("%.200r: %s", first.target, objection)
        self._objection = objection

    async def _alone(self, address: Address, item: Forwarded) -> Reply:
        (reply,) = await self._run([item], address)
        return reply

    def _differs(self, item: Forwarded) -> None:
        self._unbatchable_keys.set_apart(item.place)
        if self._logged.begins("was answered otherwise in a batch than alone"):
            _log.error(
                "%.200r: a request was answered otherwise in a batch than alone:"
                " requests for this path are sent alone from now on",
                item.target,
            )

    async def _ask(
        self,
        address: Address,
        first: Forwarded,
        headers: Mapping[str, str],
        message: Message,
    ) -> tuple[int, Message]:
        try:
            return await self._client.send(
                address,
                first.method,
                first.target,
                message,
                headers,
                self._max_answer,
                self._timeout,
            )
        except UpstreamTooLarge:
            self._directory.succeeded(address)
            raise
        except (UpstreamLost, UpstreamBroken, WorkerTimeout) as error:
            if isinstance(error, UpstreamUnreachable):
                self.models.forget()  # it may come back with others
            self._directory.failed(address)
            raise

    def _headers(self, items: Sequence[Forwarded], now: float) -> CIMultiDict[str]:
        """Those of a batch; its trace is its own, or that of its only member.

        It says how long the member that waits longest still does: the server need not go on then.
        """
        headers = CIMultiDict(items[0].rules.for_batch(items))
        if self._about is not None:
            for name in _OF_A_TRACE:
                headers.popall(name, None)
            headers.update(self._about())
        left = max(item.due for item in items) - now
        if 0 < left < inf:
            headers["X-Request-Timeout-Ms"] = f"{ceil(left * 1e3)}"
        return headers

    def _judge(
        self, address: Address, reply: Reply, kind: type[UpstreamAnswered], *, alone: bool
    ) -> None:
        """What an error says about the server; whose fault it is, others have to show.

        A 404 or 400 may be about what was asked, or a model that is not loaded there.
        """
        if reply.status in _BROKEN_STATUSES:
            self._directory.failed(address)
        elif kind is UpstreamBusy:
            self._directory.refused(address, retry_after(reply.message.headers))
        elif kind is UpstreamOutOfMemory:
            self._directory.exhausted(address, alone=alone)
        elif kind in _MAYBE_BROKEN:
            self._directory.erred(address)
        else:
            self._directory.succeeded(address)

    def _split(
        self, address: Address, first: Forwarded, shares: Sequence[Any], answer: Message
    ) -> list[Message]:
        """To each its part, if the server, or the kind of request, is one that allows for it."""
        try:
            parts = first.form.split(shares, answer)
        except Unsplittable as error:
            if not self._directory.garbled(address, first.key):
                self._directory.succeeded(address)
                self._unbatchable_keys.enter(first.key, monotonic())
                if self._logged.begins("had an answer that can't be shared out"):
                    _log.warning(
                        "%.200r: requests like this are sent alone for a while: %.200s",
                        first.target,
                        error,
                    )
            raise UpstreamMismatch(f"a batch of {len(shares)} requests: {error}") from error
        self._directory.succeeded(address)
        if not goes_as_it_came(shares):  # such an answer was not cut, and shows nothing
            self._directory.shared_out(address, first.key)
        return parts


def _sum_up(what: str, more: int, seconds: float) -> None:
    _log.warning("%d more kinds of requests %s within %.0f s", more, what, seconds)
