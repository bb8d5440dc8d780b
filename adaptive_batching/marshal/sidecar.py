"""A proxy that lets requests for a model server share batches, and passes on all others."""

import asyncio
from collections.abc import Collection, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any

from aiohttp import web

from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import DeadlineExceeded, Overloaded, UpstreamBroken, UpstreamBusy
from adaptive_batching.marshal.body import arrived_body, arriving_body
from adaptive_batching.marshal.error_log import ErrorLog
from adaptive_batching.marshal.header_view import HeaderView
from adaptive_batching.marshal.passing import PassThrough
from adaptive_batching.marshal.patience import patience
from adaptive_batching.marshal.protocol import check_protocol
from adaptive_batching.marshal.rejections import rejection
from adaptive_batching.marshal.request_ids import request_id
from adaptive_batching.marshal.share_of_reply import share_of_reply
from adaptive_batching.marshal.target import origin_form
from adaptive_batching.wire.exchange import Format, Message, Request, Unsplittable
from adaptive_batching.workers.upstream import Forwarded, Reply, UpstreamRefusal, Upstreams

PARTITION_BY = ("accept", "authorization", "x-api-key")
"""Headers that keep requests apart, and are what the server is told of those in a batch."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a sidecar asks of clients.

    Attributes:
        max_latency: Seconds from a request's arrival to its answer; infinite for no promise.
        max_batch_size: Items that are sent together.
        max_body: Bytes that a request may have to share a batch; larger ones are passed on.
        body_timeout: Seconds that a body may take to arrive.
        max_in_flight: Requests at a time; more are refused.
        partition_by: Headers whose values keep requests apart.
    """

    max_latency: float = inf
    max_batch_size: int = 64
    max_body: int = 8 * 2**20
    body_timeout: float = 10.0
    max_in_flight: int = 4096
    partition_by: Collection[str] = PARTITION_BY


class Sidecar:
    """Answers all requests for a model server; an aiohttp low-level handler.

    Args:
        form: The server's protocol.
        upstreams: Where batches go.
        dispatcher: Sends them there.
        passing: Answers what can't share a batch.
        terms: What is asked of clients.

    Attributes:
        draining: Whether clients are told to go elsewhere; what comes is answered all the same.
        in_flight: Requests that are being answered.
    """

    def __init__(
        self,
        form: Format[Any],
        upstreams: Upstreams,
        dispatcher: Dispatcher[Forwarded, Reply],
        passing: PassThrough,
        terms: Terms,
    ) -> None:
        self.draining = False
        self.in_flight = 0
        self._form = form
        self._upstreams = upstreams
        self._dispatcher = dispatcher
        self._passing = passing
        self._terms = terms
        self._errors = ErrorLog()
        self._emptied = asyncio.Event()
        self._emptied.set()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever happens."""
        self.in_flight += 1
        self._emptied.clear()
        begin = monotonic()
        response: web.StreamResponse
        try:
            response = await self._answer(request, begin)
        except (UpstreamRefusal, UpstreamBusy) as refusal:
            response = self._shared(refusal.reply, request, begin)
        except ConnectionError:
            raise  # the answer has begun, and is broken off
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            name = request_id(request)
            self._errors.enter(error, name, "sidecar")
            response = rejection(error, name)
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._emptied.set()
        if self.draining:
            response.force_close()
        return response

    async def emptied(self) -> None:
        """Wait until no request is being answered."""
        await self._emptied.wait()

    async def _answer(self, request: web.BaseRequest, begin: float) -> web.StreamResponse:
        check_protocol(request)
        if self.in_flight > self._terms.max_in_flight:
            raise Overloaded(f"{self._terms.max_in_flight} requests are in flight already")
        target = origin_form(request)
        path = target.partition("?")[0]
        if not self._form.wants(request.method, path) or self._must_stream(request):
            return await self._passing(request)
        body = arrived_body(request, self._terms.max_body)
        if body is None:
            body = await arriving_body(request, self._terms.max_body, self._terms.body_timeout)
        message = Message(body, HeaderView(request.headers))
        share = self._form.take(Request(request.method, path, message))
        if share is None:
            return await self._passing(request, body)
        reply = await self._batched(share, request, target, begin)
        return self._shared(reply, request, begin)

    def _shared(self, reply: Reply, request: web.BaseRequest, begin: float) -> web.StreamResponse:
        return share_of_reply(reply, request, monotonic() - begin, closes=self.draining)

    def _must_stream(self, request: web.BaseRequest) -> bool:
        """Whether its body is in a coding that is not ours to read, or too large to be kept."""
        too_large = (request.content_length or 0) > self._terms.max_body
        return too_large or "Content-Encoding" in request.headers

    async def _batched(
        self, share: Any, request: web.BaseRequest, target: str, begin: float
    ) -> Reply:
        """Let a share, or the pieces that it is cut into, join batches."""
        limit = self._terms.max_batch_size
        if share.size <= limit:
            return await self._submit(share, request, target, begin)
        pieces = self._form.cut(share, limit)
        replies = await _all([self._submit(each, request, target, begin) for each in pieces])
        try:
            whole = self._form.join(share, [reply.message for reply in replies])
        except Unsplittable as error:
            raise UpstreamBroken(f"a request in {len(pieces)} pieces: {error}") from error
        last = replies[-1]
        return Reply(last.status, whole, last.batch_id, last.batch_size, last.seconds)

    async def _submit(
        self, share: Any, request: web.BaseRequest, target: str, begin: float
    ) -> Reply:
        item = Forwarded(self._form, share, request.method, target, self._partition(request))
        waits = min(patience(request.headers), self._terms.max_latency) - (monotonic() - begin)
        if waits <= 0:
            raise DeadlineExceeded("its time was over when its body had arrived")
        key: Hashable = item.key
        if not self._upstreams.mergeable(key):
            key = object()
        return await self._dispatcher.submit(item, key, waits, share.size)

    def _partition(self, request: web.BaseRequest) -> dict[str, str]:
        """What the server is told of a client in a batch: the same for all of its members."""
        headers = request.headers
        return {
            name: ", ".join(headers.getall(name))
            for name in self._terms.partition_by
            if name in headers
        }


async def _all(pieces: Sequence[Coroutine[Any, Any, Reply]]) -> list[Reply]:
    """Wait for all; the first error ends those that are left."""
    tasks = [asyncio.ensure_future(piece) for piece in pieces]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
